// Keys of [averager] that make no sense together are refused by name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/read.hpp"
#include "kernels/error.hpp"

namespace halograd {
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
  for (const std::string name : {"allreduce", "easgd", "hierarchical", "fast"}) {
    expect_refused("name = \"" + name + "\"\nstaleness = 2", {"averager.staleness", "\"" + name + "\"", "run.toml:9"});
    expect_refused("name = \"" + name + "\"\npatience = 0.5", {"averager.patience", "\"" + name + "\""});
  }
  expect_refused("staleness = -1\nglobal_every = 10", {"averager.staleness", "averager.global_every"});
  expect_refused("every = 8\nstaleness = 1\nconsensus_target = 2", {"averager.staleness", "averager.consensus_target"});
  expect_refused("staleness = 1\ncodec = \"int8\"", {"averager.codec \"int8\"", "averager.staleness"});
}

TEST(AveragerConfigTest, WhatWouldHaveNoEffectIsRefused) {
  expect_refused("name = \"allreduce\"\nevery = 4", {"averager.every", "\"allreduce\"", "global_every"});
  expect_refused("name = \"none\"\nevery = 4", {"averager.every", "\"none\""});
  expect_refused("name = \"allreduce\"\nglobal_every = 4", {"averager.global_every", "\"allreduce\""});
  expect_refused("consensus_target = 2", {"averager.consensus_target", "averager.every = 1"});
  expect_refused("name = \"easgd\"\ncodec = \"bf16\"", {"averager.codec \"bf16\"", "\"easgd\""});
  for (const std::string name : {"none", "allreduce", "fast"}) {
    expect_refused("name = \"" + name + "\"\nmomentum = \"averaged\"", {"averager.momentum", "\"" + name + "\""});
  }
  expect_refused("momentum = \"averaged\"", {"averager.momentum", "sgd"}, "name = \"sgd\"");
}

TEST(AveragerConfigTest, NamesAreSuggested) {
  expect_refused("codec = \"int9\"", {"did you mean \"int8\"?", "\"fp32\", \"bf16\", \"int8\", \"top_k\""});
  expect_refused("name = \"heirarchical\"", {"did you mean \"hierarchical\"?"});
  expect_refused("momentum = \"average\"", {"did you mean \"averaged\"?"});
  expect_refused("kept_share = 0", {"averager.kept_share"});
}

TEST(AveragerConfigTest, WhatMakesSenseIsTaken) {
  for (const char* averager : {"every = 4\nglobal_every = 16\nmomentum = \"averaged\"",
                               "name = \"none\"\nglobal_every = 8\nmomentum = \"averaged\"",
                               "every = 32\nconsensus_target = 2\ncodec = \"int8\"",
                               "name = \"easgd\"\nevery = 10\nelasticity = 0.5", "name = \"fast\"\nsync_epochs = 0",
                               "name = \"hierarchical\"\norder = \"adapt_then_combine\"", "staleness = 3\nevery = 2"}) {
    EXPECT_EQ(message_of(averager), "") << averager;
  }
  EXPECT_EQ(message_of("momentum = \"averaged\"", "name = \"adam\""), "");
}

}  // namespace
}  // namespace halograd
