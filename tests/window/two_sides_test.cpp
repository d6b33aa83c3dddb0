#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/error.hpp"
#include "window/pair_window.hpp"

namespace halograd::two_sides_test {
namespace {

Graph graph_of(const std::string& kind, int ranks) {
  TopologyConfig config;
  config.kind = kind;
  return make_graph(config, ranks);
}

std::size_t reached_from_0(const Graph& graph) {
  std::vector<bool> seen(graph.size(), false);
  std::vector<int> queue{0};
  seen[0] = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const int next : graph[static_cast<std::size_t>(queue[head])]) {
      if (!seen[static_cast<std::size_t>(next)]) queue.push_back(next);
      seen[static_cast<std::size_t>(next)] = true;
    }
  }
  return queue.size();
}

TEST(TwoSides, HaveEdgesBetweenThemOnlyAndReachEverybody) {
  for (const char* kind :
       {"ring", "line", "grid2d", "torus2d", "torus3d", "hypercube", "star", "complete", "random_regular"}) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      const Graph graph = graph_of(kind, ranks);
      const Sides sides = two_sides(graph);
      int asking = 0;
      for (std::size_t rank = 0; rank < graph.size(); ++rank) {
        asking += sides.asks[rank] ? 1 : 0;
        ASSERT_TRUE(std::is_sorted(sides.partners[rank].begin(), sides.partners[rank].end()));
        for (const int other : sides.partners[rank]) {
          ASSERT_NE(sides.asks[rank], sides.asks[static_cast<std::size_t>(other)]) << kind << ranks;
          ASSERT_TRUE(std::binary_search(graph[rank].begin(), graph[rank].end(), other)) << kind << ranks;
        }
      }
      ASSERT_TRUE(is_undirected(sides.partners)) << kind << ranks;
      ASSERT_EQ(reached_from_0(sides.partners), graph.size()) << kind << ranks;
      ASSERT_GE(2 * asking, ranks) << kind << ranks;
    }
  }
}

TEST(TwoSides, KeepAllEdgesWhereTheGraphHasTwoAlready) {
  EXPECT_EQ(two_sides(graph_of("hypercube", 16)).partners, graph_of("hypercube", 16));
  EXPECT_EQ(two_sides(graph_of("ring", 12)).partners, graph_of("ring", 12));
  EXPECT_EQ(two_sides(graph_of("star", 9)).partners, graph_of("star", 9));
  for (const auto& partners : two_sides(graph_of("complete", 8)).partners) EXPECT_EQ(partners.size(), 4U);
}

TEST(TwoSides, RefuseDirectedAndDisconnectedGraphs) {
  EXPECT_THROW(two_sides(graph_of("exponential", 8)), Error);
  EXPECT_THROW(two_sides({{1}, {0}, {3}, {2}}), Error);
}

}  // namespace
}  // namespace halograd::two_sides_test
