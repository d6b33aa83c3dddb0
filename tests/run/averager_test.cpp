// Keys of [averager] that make no sense together are refused by name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "run/read.hpp"

namespace halograd::averager_test {
namespace {

/// The message that this table gives; empty where it is taken.
std::string message_of(const std::string& averager, const std::string& optimizer = "momentum = 0.9") {
  try {
    parse_config("[data]\nformat = \"synthetic\"\n[network]\nname = \"lenet5\"\n[optimizer]\nlearning_rate = 0.1\n" +
                     optimizer + "\n[averager]\n" + averager + "\n",
                 "run.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& averager, const std::vector<std::string>& parts,
                    const std::string& optimizer = "momentum = 0.9") {
  const std::string message = message_of(averager, optimizer);
  EXPECT_FALSE(message.empty()) << averager;
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(AveragerConfigTest, StalenessIsRefusedWithAveragersThatWaitForAll) {
  for (const std::string name : {"allreduce", "easgd", "hierarchical", "fast", "push_sum"}) {
    expect_refused("name = \"" + name + "\"\nstaleness = 2", {"averager.staleness", "\"" + name + "\"", "run.toml:10"});
    expect_refused("name = \"" + name + "\"\npatience = 0.5", {"averager.patience", "\"" + name + "\""});
  }
  expect_refused("staleness = -1\nglobal_every = 10", {"averager.staleness", "averager.global_every"});
  expect_refused("every = 8\nstaleness = 1\nconsensus_target = 2", {"averager.staleness", "averager.consensus_target"});
  expect_refused("staleness = 1\ncodec = \"int8\"", {"averager.codec = \"int8\"", "averager.staleness"});
  for (const std::string name : {"push_sum", "fast"}) {
    expect_refused("name = \"" + name + "\"\nstaleness = 1", {"averager.staleness = 1 is a bound, but ranks of \"" +
                                                              name + "\" either keep step or wait for nobody"});
    expect_refused("name = \"" + name + "\"\nstaleness = -1\nglobal_every = 10",
                   {"averager.staleness", "averager.global_every"});
  }
  expect_refused("name = \"push_sum\"\nstaleness = -1\noverlap = true",
                 {"averager.overlap = true needs what neighbours send in each step", "averager.staleness = -1"});
  expect_refused("name = \"push_sum\"\nstaleness = -1\n[topology]\nkind = \"one_peer_exponential\"",
                 {"averager.staleness = -1 needs neighbours that stay the same"});
}

TEST(AveragerConfigTest, WhatWouldHaveNoEffectIsRefused) {
  expect_refused("name = \"allreduce\"\nevery = 4", {"averager.every", "\"allreduce\"", "global_every"});
  expect_refused("name = \"none\"\nevery = 4", {"averager.every", "\"none\""});
  expect_refused("name = \"allreduce\"\nglobal_every = 4", {"averager.global_every", "\"allreduce\""});
  expect_refused("consensus_target = 2", {"averager.consensus_target", "averager.every = 1"});
  expect_refused("name = \"allreduce\"\ncodec = \"int8\"", {"sends gradients", "expected \"fp32\" or \"bf16\""});
  expect_refused("name = \"easgd\"\ncodec = \"bf16\"", {"averager.codec applies only", "\"easgd\""});
  for (const std::string name : {"none", "allreduce", "fast"}) {
    expect_refused("name = \"" + name + "\"\nmomentum = \"averaged\"", {"averager.momentum", "\"" + name + "\""});
  }
  expect_refused("momentum = \"averaged\"", {"averager.momentum", "sgd"}, "name = \"sgd\"");
  expect_refused("staleness = -1\npatience = 0.5",
                 {"averager.patience", "averager.staleness = -1 none is", "run.toml:10"});
  EXPECT_EQ(message_of("staleness = 2\npatience = 0.5"), "");
}

TEST(AveragerConfigTest, SquaresOfGradientsAreNotAveragedByACodec) {
  for (const std::string codec : {"bf16", "int8", "top_k"}) {
    const std::string averaged = "codec = \"" + codec + "\"\nmomentum = \"averaged\"";
    for (const std::string optimizer : {"adam", "adamw", "adagrad"}) {
      expect_refused(averaged, {"averager.codec = \"" + codec + "\"", optimizer + " hold squares", "run.toml:10"},
                     "name = \"" + optimizer + "\"");
    }
    EXPECT_EQ(message_of(averaged), "") << "sgd";
  }
}

TEST(AveragerConfigTest, SharesAreNotMeasuredWhereNeighboursGradientsMakeSteps) {
  const std::string measured = "\n[training]\nshares = \"measured\"";
  expect_refused("name = \"fast\"" + measured, {"training.shares", "(found \"fast\")", "run.toml:11"});
  expect_refused("name = \"fast\"\nstaleness = -1" + measured, {"takes its next images"});
  for (const char* name : {"neighbour", "allreduce", "none", "easgd", "push_sum", "hierarchical"}) {
    EXPECT_EQ(message_of("name = \"" + std::string(name) + "\"" + measured), "");
  }
  EXPECT_EQ(message_of("name = \"gossip_grad\"\n[topology]\nkind = \"random_matching\"" + measured), "");
}

TEST(AveragerConfigTest, NamesAreSuggested) {
  expect_refused("codec = \"int9\"", {"did you mean \"int8\"?", "\"fp32\", \"bf16\", \"int8\", \"top_k\""});
  expect_refused("name = \"heirarchical\"", {"did you mean \"hierarchical\"?"});
  expect_refused("momentum = \"average\"", {"did you mean \"averaged\"?"});
  expect_refused("kept_share = 0", {"averager.kept_share"});
}

TEST(AveragerConfigTest, GraphsAndAveragersThatDoNotGoTogetherAreRefused) {
  const auto expect = [](const std::string& averager, const std::string& topology, const std::string& part) {
    expect_refused(averager + "\n[topology]\n" + topology, {part});
  };
  expect("name = \"push_sum\"\npatience = 1.5", "",
         "averager.patience applies only to averager.name = \"neighbour\" (found \"push_sum\")");
  expect("staleness = 1", "kind = \"random_matching\"", "neighbours that stay the same");
  expect("overlap = true", "", "averager.overlap applies only to averager.name = \"push_sum\" (found \"neighbour\")");
  expect("", "weights = \"out_degree\"",
         "topology.weights = \"out_degree\" applies only to averager.name = \"push_sum\"");
  expect("name = \"gossip_grad\"", "", "another partner in each step; topology.kind is \"ring\"");
  expect("name = \"ad_psgd\"", "kind = \"exponential\"", "edges both ways");
  expect("name = \"ad_psgd\"", "kind = \"random_matching\"", "a graph that does not change");
  expect("name = \"fast\"", "kind = \"one_peer_exponential\"", "neighbours that stay the same");
  expect("codec = \"int8\"", "kind = \"one_peer_exponential\"", "averager.codec = \"int8\" needs neighbours that stay");
  expect("momentum = \"averaged\"", "kind = \"random_matching\"", "averager.momentum = \"averaged\" needs");
  expect("name = \"push_sum\"\nglobal_every = 8", "", "averager.global_every looks at all replicas at once");
  expect("name = \"gossip_grad\"\nevery = 2", "kind = \"random_matching\"", "averager.every applies only to");
  expect("name = \"gossip_grad\"\nconsensus_target = 2", "kind = \"random_matching\"",
         "averager.consensus_target applies only to");
  expect("name = \"ad_pgsd\"", "", "did you mean \"ad_psgd\"?");
  for (const char* good : {"name = \"push_sum\"\noverlap = true\n[topology]\nkind = \"exponential\"",
                           "name = \"push_sum\"\n[topology]\nweights = \"out_degree\"",
                           "name = \"gossip_grad\"\nglobal_every = 16\n[topology]\nkind = \"rotating_exponential\"",
                           "name = \"ad_psgd\"\n[topology]\nkind = \"complete\"",
                           "every = 4\n[topology]\nkind = \"one_peer_exponential\"", "staleness = -1"}) {
    EXPECT_EQ(message_of(good), "") << good;
  }
}

TEST(AveragerConfigTest, HalosMayBeLostOnlyWhereNobodyWaitsForThem) {
  const std::string losses = "\n[comm]\ninject.drop_fraction = 0.1";
  expect_refused(losses, {"comm.inject.drop_fraction loses halos, but with averager.staleness = 0"});
  expect_refused("staleness = 3" + losses, {"a rank waits for them without end"});
  expect_refused("name = \"allreduce\"" + losses, {"but the averager \"allreduce\" needs everything that is sent"});
  EXPECT_EQ(message_of("staleness = -1" + losses), "");
  EXPECT_EQ(message_of("patience = 0.1" + losses), "");
}

TEST(AveragerConfigTest, DeviceWindowsMayBeAskedForWhereHalosCanLieThere) {
  const std::string asked = "\n[comm]\ndevice_windows = \"on\"";
  expect_refused("name = \"push_sum\"" + asked, {"comm.device_windows", "the averager is \"push_sum\""});
  expect_refused("codec = \"int8\"" + asked, {"comm.device_windows", "the codec is \"int8\""});
  expect_refused("[topology]\nkind = \"random_matching\"" + asked,
                 {"comm.device_windows", "topology.kind is \"random_matching\""});
  EXPECT_EQ(message_of(asked), "");
  EXPECT_EQ(message_of("staleness = -1" + asked), "");
  expect_refused("\n[comm]\ndevice_windows = \"yes\"", {"comm.device_windows", "\"auto\", \"on\""});
}

TEST(AveragerConfigTest, MessagesNeedTheThreadThatReceivesThem) {
  expect_refused("\n[comm]\ntransport = \"send\"\nprogress_us = 0",
                 {"comm.transport is \"send\"", "the thread that comm.progress_us = 0 forbids"});
  for (const char* free : {"staleness = -1", "patience = 0.5", "name = \"ad_psgd\"\n[topology]\nkind = \"complete\"",
                           "name = \"push_sum\"\nstaleness = -1", "name = \"fast\"\nstaleness = -1"}) {
    expect_refused(std::string(free) + "\n[comm]\nprogress_us = 0",
                   {"comm.transport is \"auto\", by which ranks that wait for nobody send messages",
                    "the thread that comm.progress_us = 0 forbids", "comm.transport = \"put\""});
    EXPECT_EQ(message_of(std::string(free) + "\n[comm]\ntransport = \"put\"\nprogress_us = 0"), "");
  }
  EXPECT_EQ(message_of("staleness = 2\n[comm]\nprogress_us = 0"), "");
  EXPECT_EQ(message_of("\n[comm]\ntransport = \"send\""), "");
  EXPECT_EQ(message_of("\n[comm]\ntransport = \"put\"\nprogress_us = 0"), "");
  expect_refused("\n[comm]\ntransport = \"get\"", {"comm.transport", "\"auto\", \"put\""});
}

TEST(AveragerConfigTest, WhatMakesSenseIsTaken) {
  for (const char* averager :
       {"every = 4\nglobal_every = 16\nmomentum = \"averaged\"",
        "name = \"none\"\nglobal_every = 8\nmomentum = \"averaged\"",
        "every = 32\nconsensus_target = 2\ncodec = \"int8\"", "name = \"easgd\"\nevery = 10\nelasticity = 0.5",
        "name = \"fast\"\nsync_epochs = 0", "name = \"hierarchical\"\norder = \"adapt_then_combine\"",
        "staleness = 3\nevery = 2", "name = \"push_sum\"\nstaleness = -1\n[topology]\nweights = \"out_degree\"",
        "name = \"fast\"\nstaleness = -1\nevery = 2\nsync_epochs = 3"}) {
    EXPECT_EQ(message_of(averager), "") << averager;
  }
  EXPECT_EQ(message_of("momentum = \"averaged\"", "name = \"adam\""), "");
}

}  // namespace
}  // namespace halograd::averager_test
