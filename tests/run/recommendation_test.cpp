#include "run/recommendation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/error.hpp"
#include "run/read.hpp"

namespace halograd::recommendation_test {
namespace {

/// A step of 1 ms and 0.1 ms per image; a model of 100 MB; 10 GB/s and 2 us between nodes.
PlannedJob job_of(int nodes, int on_node) {
  PlannedJob job;
  job.ranks = nodes * on_node;
  job.machine = {2e-6, 10e9, 100e9, on_node};
  job.parameters = 25'000'000;
  for (const int batch : {8, 16, 32, 64, 128, 256}) {
    job.batches.push_back({batch, 1e-3 + 1e-4 * batch, 1e9 + 1e7 * batch});
  }
  return job;
}

std::vector<Candidate> candidates_of(const PlannedJob& job) {
  return candidates(job, [](const AveragerConfig&) { return CodecSpeed{1e-10, 1e-10}; });
}

Candidate pick_of(const PlannedJob& job) {
  const std::vector<Candidate> all = candidates_of(job);
  return recommended(all, job.uneven);
}

/// The first one, that of the plain averager.
const Candidate& found(const std::vector<Candidate>& all, const std::string& averager, const std::string& topology,
                       int batch) {
  return *std::find_if(all.begin(), all.end(), [&](const Candidate& each) {
    return each.batch == batch && each.averager.name == averager && each.topology.kind == topology;
  });
}

TEST(Recommendation, ThroughputAndMixingFollowFromTheModel) {
  const auto all = candidates_of(job_of(16, 1));
  const Candidate ring = found(all, "neighbour", "ring", 256);
  // two puts of 100 MB at 10 GB/s: 20 ms, within the 26.6 ms of the step; two halos read at 100 GB/s: 2 ms
  EXPECT_NEAR(ring.step.exchange_seconds, 20e-3 + 4e-6, 1e-9);
  EXPECT_NEAR(ring.step.step_seconds, 26.6e-3 + 2e-3, 1e-9);
  EXPECT_NEAR(ring.images_per_second, 16 * 256 / 28.6e-3, 1e-3);
  EXPECT_NEAR(ring.mixing, 0.051, 0.001);
  EXPECT_EQ(ring.averager.every, 1);  // the gap allows no more
  EXPECT_NEAR(ring.node_memory, 1e9 + 2.56e9 + 4 * 100e6, 1);
  const Candidate torus = found(all, "neighbour", "torus2d", 256);
  EXPECT_EQ(torus.averager.every, 8);  // 14 ms + 6 ms in each second and fourth step are more than 2 %
  EXPECT_NEAR(torus.mixing, 0.4 / 8, 1e-9);
  EXPECT_EQ(torus.price, Price::skipping);
}

/// Two ranks share a replica. Each sends half of it; where both are on one node, the node sends all of it.
TEST(Recommendation, GroupsAverageTheirShards) {
  for (const int on_node : {1, 2}) {
    PlannedJob job = job_of(32 / on_node, on_node);
    job.group_ranks = 2;
    EXPECT_EQ(job.replicas(), 16);
    const auto all = candidates_of(job);
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Candidate& each) { return each.free; }));
    const Candidate ring = found(all, "neighbour", "ring", 256);
    EXPECT_NEAR(ring.step.exchange_seconds, 10e-3 * on_node + 4e-6, 1e-9);
    EXPECT_NEAR(ring.images_per_second, 16 * 256 / ring.step.step_seconds, 1e-3);
    EXPECT_NEAR(ring.node_memory, 1e9 + 2.56e9 + 4 * 50e6 * on_node, 1);
    job.machine.transport = 1e-11;  // for the 100 MB that each sends
    EXPECT_NEAR(found(candidates_of(job), "neighbour", "ring", 256).step.step_seconds, ring.step.step_seconds + 1e-3,
                1e-9);
  }
}

/// On clusters slow and fast, even and uneven.
std::vector<PlannedJob> many_jobs() {
  std::vector<PlannedJob> jobs;
  for (const int nodes : {4, 8}) {
    for (const int on_node : {1, 4}) {
      for (const double bandwidth : {12.5e6, 1.25e9, 1e13}) {
        for (const Unevenness& uneven : {Unevenness{}, {0.1, 1}, {0, 3}}) {
          PlannedJob job = job_of(nodes, on_node);
          job.machine.bandwidth = bandwidth;
          job.uneven = uneven;
          job.batches.resize(2);
          jobs.push_back(job);
        }
      }
    }
  }
  return jobs;
}

TEST(Recommendation, IsAsFastAsTheFastestOfItsBatch) {
  for (const PlannedJob& job : many_jobs()) {
    const auto all = candidates_of(job);
    const Candidate pick = recommended(all, job.uneven);
    double best = 0;
    for (const Candidate& each : all) {
      if (each.refusal != nullptr) continue;
      EXPECT_GE(each.mixing, least_mixing);
      if (each.batch == pick.batch) best = std::max(best, each.images_per_second);
    }
    EXPECT_GE(pick.images_per_second, as_fast * best);
    for (const Candidate& each : all) {  // and nothing that costs less accuracy is as fast, with the same pace
      const bool as_good = each.refusal == nullptr && each.batch == pick.batch && each.free == pick.free &&
                           each.images_per_second >= as_fast * best;
      if (!as_good) continue;
      EXPECT_GE(each.price, pick.price) << each.averager.name << " on " << each.topology.kind;
      if (each.price > pick.price) continue;
      EXPECT_GE(each.neighbours, pick.neighbours);
      EXPECT_FALSE(each.neighbours == pick.neighbours && each.step.bytes < pick.step.bytes);
    }
  }
}

TEST(Recommendation, IsNotTheCompleteGraphOfRanks) {
  for (const PlannedJob& job : many_jobs()) {
    if (job.ranks == 4 || job.machine.ranks_per_node > 1) continue;  // of four, exchanges can be so much rarer
    EXPECT_NE(pick_of(job).topology.kind, "complete") << job.ranks << " ranks, " << job.machine.bandwidth;
  }
}

TEST(Recommendation, IsTheSmallestBatchNearTheBest) {
  const auto all = candidates_of(job_of(16, 1));
  const Candidate pick = recommended(all, {});
  double best = 0;
  for (const Candidate& each : all) {
    if (each.refusal == nullptr) best = std::max(best, each.images_per_second);
  }
  for (const Candidate& each : all) {
    if (each.refusal != nullptr || each.images_per_second < near_best * best) continue;
    EXPECT_GE(each.batch, pick.batch);
  }
}

TEST(Recommendation, AllReduceWhereTheNetworkIsFastAndTheRanksAreEven) {
  PlannedJob fast = job_of(8, 1);
  fast.machine.bandwidth = fast.machine.memory_bandwidth = 1e13;
  EXPECT_EQ(pick_of(fast).averager.name, "allreduce");
}

TEST(Recommendation, AFreePaceWhereTheRanksAreUneven) {
  PlannedJob uneven = job_of(8, 1);
  const auto expect = [&](const Unevenness& each, double memory_bandwidth, bool free) {
    uneven.uneven = each;
    uneven.machine.memory_bandwidth = memory_bandwidth;
    const Candidate pick = pick_of(uneven);
    EXPECT_EQ(pick.free, free);
    EXPECT_EQ(pick.averager.staleness, free ? -1 : 0);
  };
  expect({0, 4}, 100e9, true);
  expect({0.2, 1}, 1e12, true);
  expect({0.2, 1}, 100e9, false);  // what a free pace copies and mixes in each step takes longer than the others wait
  expect({0.01, 1}, 100e9, false);
  expect({0.01, 1}, 1e12, false);
}

TEST(Recommendation, PushSumAtAFreePaceIsPlannedOnGraphsThatStay) {
  int found = 0;
  for (const Candidate& each : candidates_of(job_of(8, 1))) {
    if (!each.free || each.averager.name != "push_sum") continue;
    EXPECT_EQ(each.averager.staleness, -1);
    EXPECT_FALSE(DynamicTopology::has_kind(each.topology.kind)) << each.topology.kind;
    ++found;
  }
  EXPECT_GT(found, 0);
}

TEST(Recommendation, ASlowNetworkIsSparedBytes) {
  PlannedJob slow = job_of(4, 1);
  slow.machine.bandwidth = 125e6;
  const Candidate pick = pick_of(slow);
  EXPECT_LT(pick.step.bytes, 25e6);
  EXPECT_GE(pick.mixing, least_mixing);
}

TEST(Recommendation, GraphsThatAreAlikeAreOneCandidate) {
  const auto all = candidates_of(job_of(4, 1));
  long graphs = 0;
  for (const Candidate& each : all) {
    const bool is_plain = each.averager.codec == AveragerConfig().codec && !each.free && each.batch == 8;
    graphs += is_plain && each.averager.name == "neighbour" ? 1 : 0;
  }
  EXPECT_EQ(graphs, 3);  // of two neighbours each, complete, one_peer_exponential
}

TEST(Recommendation, TheBatchStaysBelowItsBound) {
  PlannedJob job = job_of(4, 1);
  job.most_batch = 300;
  EXPECT_LE(4 * pick_of(job).batch, 300);
  job.most_batch = 10;  // less than the smallest that was measured
  EXPECT_EQ(pick_of(job).batch, 8);
}

TEST(Recommendation, OneRankHasNothingToExchange) {
  EXPECT_EQ(pick_of(job_of(1, 1)).step.efficiency, 1);
  EXPECT_EQ(candidates_of(job_of(1, 1)).size(), job_of(1, 1).batches.size());  // one way, not ten that are the same
}

TEST(Recommendation, WhatDoesNotFitIsNotRecommended) {
  PlannedJob small = job_of(4, 2);
  small.node_memory = 4e9;  // two ranks of 1 GB and halos, and 10 MB an image
  const Candidate best = pick_of(small);
  EXPECT_LE(best.node_memory, 4e9);
  EXPECT_LT(best.batch, 128);
  small.node_memory = 1e9;
  EXPECT_THROW(pick_of(small), Error);
}

/// The run file takes what is recommended, for every candidate.
TEST(Recommendation, KeysAreThoseOfARunFile) {
  for (const Candidate& each : candidates_of(job_of(8, 2))) {
    std::vector<std::string> overrides;
    for (const KeyValue& key : keys_of(each, 16)) overrides.push_back(key.key + "=" + key.value);
    const RunConfig config =
        parse_config("network.name = \"lenet5\"\ndata.format = \"synthetic\"\n", "test", overrides);
    EXPECT_EQ(config.averager, each.averager);
    EXPECT_EQ(config.topology, each.topology);
    EXPECT_EQ(config.training.batch, each.batch * 16);
  }
}

}  // namespace
}  // namespace halograd::recommendation_test
