#include "graph/spectral_gap.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace halograd::spectral_gap_test {
namespace {

constexpr double pi = std::numbers::pi;

Topology topology_of(const std::string& kind, int ranks, const std::vector<int>& nodes = {}) {
  TopologyConfig config;
  config.kind = kind;
  return make_topology(config, ranks, nodes);
}

TEST(SparseSpectralGap, AgreesWithAllEigenvaluesOfTheDenseMatrix) {
  for (const char* kind : {"ring", "line", "grid2d", "torus2d", "torus3d", "hypercube", "exponential", "star",
                           "complete", "random_regular"}) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64, 100, 256}) {
      const Topology topology = topology_of(kind, ranks);
      const double dense = dense_spectral_gap(topology);
      EXPECT_NEAR(sparse_spectral_gap(topology), dense, 1e-3 * dense) << kind << " " << ranks;
    }
  }
}

/// Directed, not normal and not symmetric: a ring one way with shortcuts, doubly stochastic.
TEST(SparseSpectralGap, OfADirectedGraphWhoseMatrixIsNotNormal) {
  constexpr int ranks = 60;
  std::vector<std::vector<Neighbour>> in(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    in[static_cast<std::size_t>(rank)].push_back({(rank + ranks - 1) % ranks, 0.5});
  }
  in[0].push_back({10, 0.2});  // a cycle 0 -> 10 -> 25 -> 0 beside the ring keeps rows and columns equal
  in[10].push_back({25, 0.2});
  in[25].push_back({0, 0.2});
  for (auto& row : in) std::sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const Topology topology("test", in);
  const double dense = dense_spectral_gap(topology);
  EXPECT_NEAR(sparse_spectral_gap(topology), dense, 1e-3 * dense);
}

TEST(SparseSpectralGap, OfManyRanksAgreesWithFormulas) {
  constexpr int ranks = 65536;
  const double ring = 2. / 3 * (1 - std::cos(2 * pi / ranks));
  EXPECT_NEAR(spectral_gap(topology_of("ring", ranks)), ring, 1e-3 * ring);
  const double torus = 2. / 5 * (1 - std::cos(2 * pi / 256));
  EXPECT_NEAR(spectral_gap(topology_of("torus2d", ranks)), torus, 1e-3 * torus);
  EXPECT_NEAR(spectral_gap(topology_of("hypercube", ranks)), 2. / 17, 1e-3 * 2 / 17);
  EXPECT_NEAR(spectral_gap(topology_of("exponential", ranks)), 2. / 17, 1e-3 * 2 / 17);
  EXPECT_NEAR(spectral_gap(topology_of("star", ranks)), 1. / ranks, 1e-3 / ranks);
  const double line = (2 - 2 * std::cos(pi / 5000)) / 3;
  EXPECT_NEAR(spectral_gap(topology_of("line", 5000)), line, 1e-3 * line);
}

TEST(SparseSpectralGap, DoesNotDependOnTheLayout) {
  std::vector<int> nodes(4096);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) nodes[rank] = static_cast<int>(rank) / 8;
  const double torus = 2. / 5 * (1 - std::cos(2 * pi / 64));
  EXPECT_NEAR(spectral_gap(topology_of("torus2d", 4096, nodes)), torus, 1e-3 * torus);
}

}  // namespace
}  // namespace halograd::spectral_gap_test
