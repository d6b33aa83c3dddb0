#include "graph/mixing.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/spectral_gap.hpp"
#include "kernels/error.hpp"

namespace halograd::mixing_test {
namespace {

Topology topology_of(const std::string& kind, int ranks) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, ranks);
}

std::vector<SparseMatrix> one_peer_exponential(int ranks) {
  TopologyConfig config;
  config.kind = "one_peer_exponential";
  return sparse_mixing_matrices(DynamicTopology(config, ranks));
}

std::vector<double> mix(const Topology& topology, const MixingOptions& options) {
  return simulate_mixing(ExecutionSpace(), {sparse_mixing_matrix(topology)}, options);
}

/// The mean factor a step while the distance falls from 1e-5 to 1e-11: the slowest mode alone is left by then. 0 where
/// it falls faster than that in a step.
double measured_rate(const std::vector<double>& distances) {
  std::size_t begin = 0;
  while (begin < distances.size() && distances[begin] > 1e-5) ++begin;
  if (begin + 1 >= distances.size()) return 0;
  const double ratio = distances.back() / distances[begin];
  return std::pow(ratio, 1.0 / static_cast<double>(distances.size() - 1 - begin));
}

TEST(Mixing, ConsensusDecaysAtTheSpectralRateOnEveryTopology) {
  for (const char* kind : {"ring", "line", "grid2d", "torus2d", "torus3d", "hypercube", "exponential", "star",
                           "complete", "random_regular"}) {
    for (int ranks = 2; ranks <= 16; ++ranks) {
      const Topology topology = topology_of(kind, ranks);
      const double second = 1 - spectral_gap(topology);
      const double rate = measured_rate(mix(topology, {16, 1e-11, 100000}));
      if (second < 1e-9) {  // one step and all agree
        EXPECT_EQ(rate, 0) << kind << " " << ranks;
      } else {
        EXPECT_NEAR(rate, second, 0.05 * second) << kind << " " << ranks;
      }
    }
  }
}

/// Shares of 1 / (out-degree of the sender + 1) have the eigenvalues 1/2, of the leaves, and 1/P - 1/2 on a star, where
/// doubly stochastic weights have 1 - 1/P.
TEST(Mixing, PushSumGoesToTheMeanByItsOwnWeights) {
  for (const int ranks : {4, 16, 64}) {
    const auto matrices = sparse_mixing_matrices(DynamicTopology("star", topology_of("star", ranks).graph()));
    EXPECT_NEAR(measured_rate(simulate_mixing(ExecutionSpace(), matrices, {16, 1e-11, 1000})), 0.5, 0.01) << ranks;
  }
}

TEST(Mixing, EndsAtTheToleranceOrAfterTheMostSteps) {
  const Topology ring = topology_of("ring", 64);
  const std::vector<double> all = mix(ring, {16, 0.01, 100000});
  EXPECT_LE(all.back(), 0.01);
  EXPECT_GT(all[all.size() - 2], 0.01);
  EXPECT_EQ(mix(ring, {16, 0.01, 7}).size(), 7U);
  EXPECT_EQ(mix(topology_of("ring", 1), {}), std::vector<double>{0});
}

TEST(Mixing, OnePeerExponentialAgreesExactlyAfterLog2PSteps) {
  for (const int ranks : {2, 4, 8, 64, 4096}) {
    const std::vector<double> distances =
        simulate_mixing(ExecutionSpace(), one_peer_exponential(ranks), {4, 1e-12, 1000});
    EXPECT_EQ(distances.size(), static_cast<std::size_t>(std::lround(std::log2(ranks)))) << ranks;
    EXPECT_LE(distances.back(), 1e-12) << ranks;
  }
  // Other numbers of ranks do not agree in a round, but come close.
  const std::vector<double> distances = simulate_mixing(ExecutionSpace(), one_peer_exponential(12), {4, 1e-12, 1000});
  EXPECT_GT(distances.size(), 4U);
  EXPECT_LE(distances.back(), 1e-12);
}

TEST(Mixing, ManyRanksAreMixedAsOneRowAtATimeWouldBe) {
  // On a hypercube with uniform weights, independent replicas keep the share sum_k C(n, k) (1 - 2k/(n+1))^2 / 2^n of
  // their squared distance in the first step.
  constexpr int axes = 12;
  double kept = 0, choose = 1;
  for (int k = 0; k <= axes; ++k) {
    const double eigenvalue = 1 - 2.0 * k / (axes + 1);
    if (k > 0) kept += choose * eigenvalue * eigenvalue / (1 << axes);
    choose = choose * (axes - k) / (k + 1);
  }
  const std::vector<double> distances = mix(topology_of("hypercube", 1 << axes), {32, 0, 1});
  EXPECT_NEAR(distances.front(), std::sqrt(kept), 0.01 * std::sqrt(kept));
}

}  // namespace
}  // namespace halograd::mixing_test
