#include "graph/recommendation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/error.hpp"

namespace halograd::recommendation_test {
namespace {

// A step of 1 ms and 0.1 ms an image; a model of 100 MB; 10 GB/s and 2 us between nodes.
std::vector<MeasuredBatch> batches() {
  std::vector<MeasuredBatch> all;
  for (const int batch : {8, 16, 32, 64, 128, 256}) all.push_back({batch, 1e-3 + 1e-4 * batch, 1e9 + 1e7 * batch});
  return all;
}

Cluster cluster(int nodes, int on_node) {
  return {nodes * on_node, {2e-6, 10e9, 100e9, on_node}, 0};
}

const Candidate& found(const std::vector<Candidate>& all, const char* topology, int batch) {
  return *std::find_if(all.begin(), all.end(), [&](const Candidate& each) {
    return each.batch == batch && each.topology == topology && each.averager == "neighbour";
  });
}

TEST(Recommendation, ThroughputAndMixingFollowFromTheModel) {
  const auto all = candidates(cluster(16, 1), 100e6, batches(), 2);
  const Candidate& ring = found(all, "ring", 256);
  // two puts of 100 MB at 10 GB/s: 20 ms, within the 26.6 ms of the step; two halos read at 100 GB/s: 2 ms
  EXPECT_NEAR(ring.step.exchange_seconds, 20e-3 + 4e-6, 1e-9);
  EXPECT_NEAR(ring.step.step_seconds, 26.6e-3 + 2e-3, 1e-9);
  EXPECT_NEAR(ring.images_per_second, 16 * 256 / 28.6e-3, 1e-3);
  EXPECT_NEAR(ring.gap, 0.051, 0.001);
  EXPECT_EQ(ring.every, 1);  // the gap allows no more
  EXPECT_NEAR(ring.node_memory, 1e9 + 2.56e9 + 4 * 100e6, 1);
  const Candidate& exponential = found(all, "exponential", 256);
  EXPECT_NEAR(exponential.gap, 0.4, 1e-9);
  EXPECT_EQ(exponential.every, 8);  // 14 ms + 4 ms in every step are more than 2 % in each second and each fourth
  EXPECT_GE(exponential.mixing(), least_mixing);
}

TEST(Recommendation, IsTheSmallestBatchNearTheBest) {
  const auto all = candidates(cluster(16, 1), 100e6, batches(), 2);
  const Candidate best = recommended(all);
  double most = 0;
  for (const Candidate& each : all) {
    if (each.averager == "neighbour" && each.mixing() >= least_mixing) most = std::max(most, each.images_per_second);
  }
  EXPECT_GE(best.images_per_second, near_best * most);
  for (const Candidate& each : all) {
    if (each.averager != "neighbour" || each.mixing() < least_mixing) continue;
    if (each.images_per_second < near_best * most) continue;
    EXPECT_GE(each.batch, best.batch);
    if (each.batch == best.batch) {
      EXPECT_LE(each.mixing(), best.mixing());
    }
  }
}

TEST(Recommendation, AFastNetworkNeedsNoSkippedExchange) {
  Cluster fast = cluster(8, 1);
  fast.machine.bandwidth = 1e13;
  fast.machine.memory_bandwidth = 1e13;
  const auto all = candidates(fast, 100e6, batches(), 2);
  EXPECT_EQ(recommended(all).every, 1);
  EXPECT_EQ(recommended(all).topology, "complete");
}

TEST(Recommendation, OneRankHasNothingToExchange) {
  const Candidate best = recommended(candidates(cluster(1, 1), 100e6, batches(), 2));
  EXPECT_EQ(best.step.efficiency, 1);
}

TEST(Recommendation, WhatDoesNotFitIsNotRecommended) {
  Cluster small = cluster(4, 2);
  small.node_memory = 4e9;  // two ranks of 1 GB and halos, and 10 MB an image
  const Candidate best = recommended(candidates(small, 100e6, batches(), 2));
  EXPECT_LE(best.node_memory, 4e9);
  EXPECT_LT(best.batch, 128);
  small.node_memory = 1e9;
  EXPECT_THROW(recommended(candidates(small, 100e6, batches(), 2)), Error);
}

}  // namespace
}  // namespace halograd::recommendation_test
