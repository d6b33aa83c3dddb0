#include "graph/dynamic_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/error.hpp"

namespace halograd::dynamic_topology_test {
namespace {

DynamicTopology topology_of(const std::string& kind, int ranks, std::uint64_t seed = 1) {
  TopologyConfig config;
  config.kind = kind;
  config.seed = seed;
  return {config, ranks};
}

/// The mixing matrix of a step, row major, from the in-neighbours alone.
std::vector<double> matrix_of(const DynamicTopology& topology, std::int64_t step) {
  const auto ranks = static_cast<std::size_t>(topology.ranks());
  const auto graph = topology.at(step);
  std::vector<double> matrix(ranks * ranks, 0.0);
  for (std::size_t i = 0; i < ranks; ++i) {
    matrix[i * ranks + i] = graph->weight(static_cast<int>(i));
    for (const int from : graph->in[i]) matrix[i * ranks + static_cast<std::size_t>(from)] += graph->weight(from);
  }
  return matrix;
}

double sum_of_row(const std::vector<double>& matrix, std::size_t ranks, std::size_t i) {
  double sum = 0;
  for (std::size_t j = 0; j < ranks; ++j) sum += matrix[i * ranks + j];
  return sum;
}

double sum_of_column(const std::vector<double>& matrix, std::size_t ranks, std::size_t j) {
  double sum = 0;
  for (std::size_t i = 0; i < ranks; ++i) sum += matrix[i * ranks + j];
  return sum;
}

TEST(DynamicTopology, IsDoublyStochasticInEveryStepForAnyNumberOfRanks) {
  for (const std::string& kind : DynamicTopology::kinds()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const DynamicTopology topology = topology_of(kind, ranks);
      for (const std::int64_t step : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1000, 1'000'000}) {
        const std::vector<double> matrix = matrix_of(topology, step);
        const auto size = static_cast<std::size_t>(ranks);
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_NEAR(sum_of_row(matrix, size, i), 1, 1e-12) << kind << " " << ranks << " step " << step;
          ASSERT_NEAR(sum_of_column(matrix, size, i), 1, 1e-12) << kind << " " << ranks << " step " << step;
          ASSERT_LE(topology.at(step)->in[i].size(), 1U);
        }
      }
    }
  }
}

TEST(DynamicTopology, OfAnyStaticGraphIsColumnStochastic) {
  for (const char* kind : {"line", "star", "exponential", "grid2d", "random_regular"}) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      TopologyConfig config;
      config.kind = kind;
      const DynamicTopology topology(kind, make_graph(config, ranks));
      const std::vector<double> matrix = matrix_of(topology, 7);
      const auto size = static_cast<std::size_t>(ranks);
      for (std::size_t j = 0; j < size; ++j) ASSERT_NEAR(sum_of_column(matrix, size, j), 1, 1e-12) << kind << ranks;
      if (kind == std::string("star") && ranks > 2) {
        EXPECT_GT(sum_of_row(matrix, size, 0), 1.1);
      }
    }
  }
}

TEST(DynamicTopology, RandomMatchingPairsRanksAndLeavesAnOddOneOut) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const DynamicTopology topology = topology_of("random_matching", ranks);
    std::set<int> left_out;
    std::set<std::pair<int, int>> pairs;
    for (std::int64_t step = 0; step < 400; ++step) {
      const auto graph = topology.at(step);
      int alone = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int>& in = graph->in[static_cast<std::size_t>(rank)];
        ASSERT_EQ(in, graph->out[static_cast<std::size_t>(rank)]);
        if (in.empty()) {
          ++alone;
          left_out.insert(rank);
          continue;
        }
        ASSERT_EQ(graph->in[static_cast<std::size_t>(in[0])], std::vector<int>{rank});
        pairs.insert({std::min(rank, in[0]), std::max(rank, in[0])});
      }
      ASSERT_EQ(alone, ranks % 2);
    }
    EXPECT_EQ(static_cast<int>(pairs.size()), ranks * (ranks - 1) / 2) << "some two ranks never meet";
    if (ranks % 2 == 1) {
      EXPECT_EQ(static_cast<int>(left_out.size()), ranks);
    }
  }
}

TEST(DynamicTopology, OnePeerExponentialHopsByPowersOfTwo) {
  const DynamicTopology topology = topology_of("one_peer_exponential", 10);
  EXPECT_EQ(topology.period(), 4);
  for (std::int64_t step = 0; step < 8; ++step) {
    const int hop = 1 << (step % 4);
    EXPECT_EQ(topology.at(step)->in[3], std::vector<int>{(3 - hop + 10) % 10});
    EXPECT_EQ(topology.at(step)->out[3], std::vector<int>{(3 + hop) % 10});
  }
  // Two nodes, ranks dealt out round robin: the first hop stays inside a node but once per node.
  TopologyConfig config;
  config.kind = "one_peer_exponential";
  const DynamicTopology laid(config, 4, {0, 1, 0, 1});
  EXPECT_EQ(laid.at(0)->in[2], std::vector<int>{0});
  EXPECT_EQ(laid.at(0)->in[3], std::vector<int>{1});
}

TEST(DynamicTopology, ExponentialHopsOfPowersOfTwoAgreeExactlyAfterEachRound) {
  for (const char* kind : {"one_peer_exponential", "rotating_exponential"}) {
    for (int exponent = 0; exponent <= 6; ++exponent) {
      EXPECT_EQ(steps_to_consensus(topology_of(kind, 1 << exponent), 1e-12, 100), exponent == 0 ? 0 : exponent) << kind;
    }
    EXPECT_GT(steps_to_consensus(topology_of(kind, 12), 1e-6, 1000), 4);
    EXPECT_LT(steps_to_consensus(topology_of(kind, 12), 1e-6, 1000), 100);
  }
}

TEST(DynamicTopology, RandomMatchingForgetsHalfOfTheDistanceAStep) {
  // Each pair loses half of the squared distance between its two: in expectation (P - 2) / (2 (P - 1)) of it is left
  // after a step (Boyd et al., 2006). A thousandth takes 2 ln(1000) / ln(1 / that) = 19.5 of 64 ranks.
  const double left = 62.0 / (2 * 63);
  const double expected = -2 * std::log(1e-3) / -std::log(left);
  double steps = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    steps += static_cast<double>(steps_to_consensus(topology_of("random_matching", 64, seed), 1e-3, 1000)) / 20;
  }
  EXPECT_NEAR(steps, expected, 0.1 * expected);
}

TEST(DynamicTopology, RandomGraphsFollowFromTheSeedAndChange) {
  for (const char* kind : {"random_matching", "rotating_exponential"}) {
    EXPECT_EQ(topology_of(kind, 32).at(12)->in, topology_of(kind, 32).at(12)->in);
    EXPECT_NE(topology_of(kind, 32).at(12)->in, topology_of(kind, 32, 2).at(12)->in);
    EXPECT_NE(topology_of(kind, 32).at(2)->in, topology_of(kind, 32).at(7)->in);
  }
}

TEST(DynamicTopology, RefusesOtherKindsAndNoRanks) {
  EXPECT_THROW(topology_of("ring", 4), Error);
  EXPECT_THROW(topology_of("random_matching", 0), Error);
  EXPECT_THROW(static_cast<void>(topology_of("random_matching", 4).at(-1)), Error);
}

}  // namespace
}  // namespace halograd::dynamic_topology_test
