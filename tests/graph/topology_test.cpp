#include "graph/topology.hpp"
#include "graph/spectral_gap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "kernels/error.hpp"

namespace halograd::topology_test {
namespace {

constexpr double pi = std::numbers::pi;
const std::vector<std::string> kinds = {"ring",      "line",        "grid2d", "torus2d",  "torus3d",
                                        "hypercube", "exponential", "star",   "complete", "random_regular"};

TopologyConfig config_of(const std::string& kind, const std::string& weights = "automatic") {
  TopologyConfig config;
  config.kind = kind;
  config.weights = weights;
  return config;
}

std::vector<int> ranks_of(const std::vector<Neighbour>& neighbours) {
  std::vector<int> ranks;
  for (const Neighbour& neighbour : neighbours) ranks.push_back(neighbour.rank);
  return ranks;
}

std::string message_of(const std::vector<std::vector<Neighbour>>& in_neighbours) {
  try {
    Topology("test", in_neighbours);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Ranks reached from `start`, read off the matrix alone.
int reached(const std::vector<double>& matrix, int ranks, int start) {
  std::vector<bool> seen(ranks, false);
  std::vector<int> queue{start};
  seen[start] = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (int next = 0; next < ranks; ++next) {
      if (seen[next] || matrix[static_cast<std::size_t>(next) * ranks + queue[head]] == 0) continue;
      seen[next] = true;
      queue.push_back(next);
    }
  }
  return static_cast<int>(queue.size());
}

TEST(Topology, IsDoublyStochasticAndConnectedForAnyNumberOfRanks) {
  for (const std::string& kind : kinds) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const Topology topology = make_topology(config_of(kind), ranks);
      const std::vector<double> matrix = topology.matrix();
      for (int i = 0; i < ranks; ++i) {
        double row = 0, column = 0;
        for (int j = 0; j < ranks; ++j) {
          const double weight = matrix[static_cast<std::size_t>(i) * ranks + j];
          ASSERT_GE(weight, 0) << kind << " " << ranks;
          row += weight;
          column += matrix[static_cast<std::size_t>(j) * ranks + i];
        }
        ASSERT_NEAR(row, 1, 1e-12) << kind << " " << ranks << " row " << i;
        ASSERT_NEAR(column, 1, 1e-12) << kind << " " << ranks << " column " << i;
        ASSERT_GT(topology.self_weight(i), 0) << kind << " " << ranks;
        ASSERT_EQ(reached(matrix, ranks, i), ranks) << kind << " " << ranks << " from " << i;
      }
    }
  }
}

TEST(Topology, OutNeighboursAreTheInNeighboursSeenFromTheOtherSide) {
  for (const std::string& kind : kinds) {
    const Topology topology = make_topology(config_of(kind), 12);
    int edges = 0;
    for (int rank = 0; rank < 12; ++rank) {
      for (const Neighbour& out : topology.out_neighbours(rank)) {
        const std::vector<Neighbour>& back = topology.in_neighbours(out.rank);
        EXPECT_NE(std::find(back.begin(), back.end(), Neighbour{rank, out.weight}), back.end());
        ++edges;
      }
      edges -= static_cast<int>(topology.in_neighbours(rank).size());
    }
    EXPECT_EQ(edges, 0) << kind;
  }
}

TEST(Topology, RingOfOneTwoAndMore) {
  EXPECT_TRUE(make_topology(config_of("ring"), 1).in_neighbours(0).empty());
  const Topology two = make_topology(config_of("ring"), 2);
  EXPECT_EQ(two.in_neighbours(0), (std::vector<Neighbour>{{1, 0.5}}));
  EXPECT_EQ(two.in_neighbours(1), (std::vector<Neighbour>{{0, 0.5}}));
  EXPECT_EQ(two.self_weight(0), 0.5);
  const Topology five = make_topology(config_of("ring"), 5);
  EXPECT_EQ(ranks_of(five.in_neighbours(0)), (std::vector<int>{1, 4}));
  EXPECT_EQ(ranks_of(five.in_neighbours(3)), (std::vector<int>{2, 4}));
  EXPECT_DOUBLE_EQ(five.in_neighbours(3)[0].weight, 1.0 / 3);
}

TEST(Topology, TorusIsAsSquareAsTheRanksAllow) {
  EXPECT_EQ(ranks_of(make_topology(config_of("torus2d"), 12).in_neighbours(0)), (std::vector<int>{1, 3, 4, 8}));
  EXPECT_EQ(ranks_of(make_topology(config_of("torus2d"), 16).in_neighbours(5)), (std::vector<int>{1, 4, 6, 9}));
  // 2 x 3: up and down are the same rank, which counts once.
  EXPECT_EQ(ranks_of(make_topology(config_of("torus2d"), 6).in_neighbours(0)), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(ranks_of(make_topology(config_of("torus2d"), 4).in_neighbours(0)), (std::vector<int>{1, 2}));
  // A prime number of ranks leaves one row, and its up and down neighbour is the rank itself.
  EXPECT_EQ(ranks_of(make_topology(config_of("torus2d"), 7).in_neighbours(0)), (std::vector<int>{1, 6}));
}

TEST(Topology, ExponentialHopsByPowersOfTwo) {
  const Topology topology = make_topology(config_of("exponential"), 10);
  EXPECT_EQ(ranks_of(topology.in_neighbours(0)), (std::vector<int>{2, 6, 8, 9}));
  EXPECT_EQ(ranks_of(topology.out_neighbours(0)), (std::vector<int>{1, 2, 4, 8}));
  EXPECT_DOUBLE_EQ(topology.in_neighbours(0)[0].weight, 0.2);
}

TEST(Topology, LinesAndGridsEndAtTheirBorders) {
  EXPECT_EQ(ranks_of(make_topology(config_of("line"), 5).in_neighbours(0)), (std::vector<int>{1}));
  EXPECT_EQ(ranks_of(make_topology(config_of("line"), 5).in_neighbours(3)), (std::vector<int>{2, 4}));
  const Topology grid = make_topology(config_of("grid2d"), 12);  // 3 x 4
  EXPECT_EQ(ranks_of(grid.in_neighbours(0)), (std::vector<int>{1, 4}));
  EXPECT_EQ(ranks_of(grid.in_neighbours(5)), (std::vector<int>{1, 4, 6, 9}));
  EXPECT_EQ(ranks_of(grid.in_neighbours(11)), (std::vector<int>{7, 10}));
}

TEST(Topology, TorusOfThreeAxesIsAsCubicAsTheRanksAllow) {
  EXPECT_EQ(ranks_of(make_topology(config_of("torus3d"), 27).in_neighbours(0)), (std::vector<int>{1, 2, 3, 6, 9, 18}));
  EXPECT_EQ(ranks_of(make_topology(config_of("torus3d"), 24).in_neighbours(0)),  // 2 x 3 x 4
            (std::vector<int>{1, 3, 4, 8, 12}));
}

TEST(Topology, HypercubeDiffersInOneBitAndIsCutWhereRanksEnd) {
  EXPECT_EQ(ranks_of(make_topology(config_of("hypercube"), 8).in_neighbours(5)), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(ranks_of(make_topology(config_of("hypercube"), 6).in_neighbours(5)), (std::vector<int>{1, 4}));
  EXPECT_EQ(ranks_of(make_topology(config_of("hypercube"), 6).in_neighbours(3)), (std::vector<int>{1, 2}));
}

TEST(Topology, RandomRegularHasTheDegreeAndFollowsFromTheSeed) {
  TopologyConfig config = config_of("random_regular");
  config.degree = 6;
  const Topology one = make_topology(config, 64);
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_LE(one.in_neighbours(rank).size(), 6U);
    EXPECT_GE(one.in_neighbours(rank).size(), 2U);
  }
  EXPECT_EQ(one.matrix(), make_topology(config, 64).matrix());
  config.seed = 2;
  EXPECT_NE(one.matrix(), make_topology(config, 64).matrix());
  EXPECT_GT(spectral_gap(one), 0.1);  // a ring of 64 has .0032
  config.degree = 3;
  EXPECT_THROW(make_topology(config, 64), Error);
}

TEST(Topology, AutomaticWeightsAreUniformOnDirectedGraphsOnly) {
  EXPECT_EQ(make_topology(config_of("exponential"), 8).matrix(),
            make_topology(config_of("exponential", "uniform"), 8).matrix());
  EXPECT_EQ(make_topology(config_of("star"), 8).matrix(),
            make_topology(config_of("star", "metropolis_hastings"), 8).matrix());
  try {  // not regular: columns would not sum to 1
    make_topology(config_of("star", "uniform"), 8);
    FAIL() << "accepted a matrix that is not doubly stochastic";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("doubly stochastic"), std::string::npos) << error.what();
  }
}

TEST(Topology, IsLaidOutSoThatMostEdgesStayInsideANode) {
  // An 8 x 8 torus on nodes of 8: rows would leave 16 edges a node crossing each way, tiles of 2 x 4 leave 12.
  const std::vector<int> nodes = nodes_of_consecutive(64, 8);
  EXPECT_EQ(crossing_edges(make_topology(config_of("torus2d"), 64), nodes), 128);
  EXPECT_EQ(crossing_edges(make_topology(config_of("torus2d"), 64, nodes), nodes), 96);
  // Tiles of 4 x 4 x 4 in a cube of 8: half of the 6 faces' points a node have an edge out.
  const std::vector<int> cubes = nodes_of_consecutive(512, 64);
  EXPECT_EQ(crossing_edges(make_topology(config_of("torus3d"), 512, cubes), cubes), 8 * 6 * 16);
}

TEST(Topology, RanksDealtOutRoundRobinGetTheLayoutOfBlocks) {
  std::vector<int> dealt(16);
  for (int rank = 0; rank < 16; ++rank) dealt[rank] = rank % 4;
  for (const std::string& kind : kinds) {
    const Topology blocks = make_topology(config_of(kind), 16, nodes_of_consecutive(16, 4));
    const Topology round_robin = make_topology(config_of(kind), 16, dealt);
    EXPECT_EQ(crossing_edges(round_robin, dealt), crossing_edges(blocks, nodes_of_consecutive(16, 4))) << kind;
    EXPECT_NEAR(spectral_gap(round_robin), spectral_gap(blocks), 1e-9) << kind;
  }
  EXPECT_EQ(crossing_edges(make_topology(config_of("ring"), 16, dealt), dealt), 8);
  EXPECT_THROW(make_topology(config_of("ring"), 8, dealt), Error);
}

TEST(Topology, MetropolisHastingsOnAStarIsDoublyStochastic) {
  const Topology topology("star", metropolis_hastings_weights({{1, 2, 3}, {0}, {0}, {0}}));
  for (int leaf = 1; leaf < 4; ++leaf) EXPECT_DOUBLE_EQ(topology.in_neighbours(leaf)[0].weight, 0.25);
  EXPECT_DOUBLE_EQ(topology.self_weight(0), 0.25);
  EXPECT_DOUBLE_EQ(topology.self_weight(1), 0.75);
}

TEST(Topology, MetropolisHastingsIsUniformOnARegularGraphAndRefusesADirectedOne) {
  EXPECT_EQ(make_topology(config_of("torus2d", "metropolis_hastings"), 8).matrix(),
            make_topology(config_of("torus2d", "uniform"), 8).matrix());
  // On 3 ranks the exponential graph is complete, and so has all its edges both ways.
  EXPECT_NO_THROW(make_topology(config_of("exponential", "metropolis_hastings"), 3));
  try {
    make_topology(config_of("exponential", "metropolis_hastings"), 8);
    FAIL() << "accepted a directed graph";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("undirected"), std::string::npos) << error.what();
  }
}

TEST(Topology, RefusesUnknownKindsWeightsAndNoRanks) {
  EXPECT_THROW(make_topology(config_of("moebius"), 4), Error);
  EXPECT_THROW(make_topology(config_of("ring", "random"), 4), Error);
  EXPECT_THROW(make_topology(config_of("ring"), 0), Error);
}

TEST(Topology, RefusesWhatIsNotAMixingMatrixAndSaysWhere) {
  EXPECT_NE(message_of({{{1, 0.75}, {2, 0.5}}, {{0, 0.5}}, {{0, 0.5}}}).find("row 0 of the mixing matrix) sum to 1.25"),
            std::string::npos);
  EXPECT_NE(message_of({{{1, 0.5}}, {{0, 0.25}}}).find("column 0"), std::string::npos);
  EXPECT_NE(message_of({{{1, 0.5}}, {{0, 0.25}}}).find("0.75"), std::string::npos);
  EXPECT_NE(message_of({{{1, 0.5}}, {{0, 0.5}}, {{3, 0.5}}, {{2, 0.5}}}).find("rank 2 cannot be reached"),
            std::string::npos);
  EXPECT_NE(message_of({{{1, -0.5}}, {{0, 0.5}}}).find("-0.5"), std::string::npos);
  EXPECT_NE(message_of({{{1, 1}}, {{0, 1}}}).find("multiple of 2"), std::string::npos);
  EXPECT_NE(message_of({{{0, 0.5}}, {{0, 0.5}}}), "");
  EXPECT_NE(message_of({{{2, 0.5}}, {{0, 0.5}}}), "");
  EXPECT_NE(message_of({}), "");
  EXPECT_EQ(message_of({{{1, 0.5}}, {{0, 0.5}}}), "");
}

/// 1 - the second largest modulus of the DFT of a circulant's first column.
double circulant_gap(const std::vector<double>& column) {
  const auto size = static_cast<double>(column.size());
  double second = 0;
  for (std::size_t k = 1; k < column.size(); ++k) {
    std::complex<double> eigenvalue = 0;
    for (std::size_t j = 0; j < column.size(); ++j) {
      eigenvalue += column[j] * std::polar(1.0, -2 * pi * static_cast<double>(j * k) / size);
    }
    second = std::max(second, std::abs(eigenvalue));
  }
  return 1 - second;
}

TEST(SpectralGap, RingAgreesWithItsCosines) {
  for (int ranks = 3; ranks <= 64; ++ranks) {
    double second = 0;
    for (int k = 1; k < ranks; ++k) second = std::max(second, std::abs(1 + 2 * std::cos(2 * pi * k / ranks)) / 3);
    EXPECT_NEAR(spectral_gap(make_topology(config_of("ring"), ranks)), 1 - second, 1e-9) << ranks;
  }
  EXPECT_NEAR(spectral_gap(make_topology(config_of("ring"), 16)), 1 - (1 + 2 * std::cos(2 * pi / 16)) / 3, 1e-12);
}

TEST(SpectralGap, TorusAgreesWithItsCosines) {
  for (const auto& [rows, columns] : {std::pair{3, 3}, {3, 5}, {4, 4}, {4, 8}, {8, 8}}) {
    double second = 0;
    for (int k = 0; k < rows; ++k) {
      for (int l = k == 0 ? 1 : 0; l < columns; ++l) {
        second =
            std::max(second, std::abs(1 + 2 * std::cos(2 * pi * k / rows) + 2 * std::cos(2 * pi * l / columns)) / 5);
      }
    }
    EXPECT_NEAR(spectral_gap(make_topology(config_of("torus2d"), rows * columns)), 1 - second, 1e-9);
  }
  EXPECT_NEAR(spectral_gap(make_topology(config_of("torus2d"), 8)), 0.5, 1e-12);  // 2 x 4, three neighbours
}

TEST(SpectralGap, TorusOfThreeAxesAgreesWithItsCosines) {
  double second = 0;
  for (int k = 1; k < 4; ++k) second = std::max(second, std::abs(5 + 2 * std::cos(2 * pi * k / 4)) / 7);
  EXPECT_NEAR(spectral_gap(make_topology(config_of("torus3d"), 64)), 1 - second, 1e-9);
}

TEST(SpectralGap, LineStarAndHypercubeAgreeWithTheirLaplacians) {
  for (int ranks = 3; ranks <= 33; ++ranks) {  // of two ranks, the line has weights of 1/2
    EXPECT_NEAR(spectral_gap(make_topology(config_of("line"), ranks)), (2 - 2 * std::cos(pi / ranks)) / 3, 1e-9);
    EXPECT_NEAR(spectral_gap(make_topology(config_of("star"), ranks)), 1.0 / ranks, 1e-9);
  }
  for (int axes = 1; axes <= 6; ++axes) {
    EXPECT_NEAR(spectral_gap(make_topology(config_of("hypercube"), 1 << axes)), axes == 1 ? 1 : 2.0 / (axes + 1), 1e-9);
  }
}

TEST(SpectralGap, ExponentialAgreesWithItsFourierTransform) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    std::vector<double> column(ranks, 0.0);
    int degree = 0;
    for (int hop = 1; hop < ranks; hop *= 2) ++degree;
    column[0] = 1.0 / (degree + 1);
    for (int hop = 1; hop < ranks; hop *= 2) column[hop] = column[0];
    EXPECT_NEAR(spectral_gap(make_topology(config_of("exponential"), ranks)), circulant_gap(column), 1e-9) << ranks;
  }
}

TEST(SpectralGap, CompleteGraphAndOneRankAgreeAtOnce) {
  for (const int ranks : {1, 2, 3, 8, 33}) {
    EXPECT_NEAR(spectral_gap(make_topology(config_of("complete"), ranks)), 1, 1e-12);
  }
}

}  // namespace
}  // namespace halograd::topology_test
