#include "graph/graphs.hpp"

#include <algorithm>
#include <numeric>

#include "graph/topology_table.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Wrap-around can name a rank twice, or the rank itself, on small graphs: each neighbour counts once, itself never.
void tidy(Graph& graph) {
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    std::vector<int>& neighbours = graph[rank];
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    neighbours.erase(std::remove(neighbours.begin(), neighbours.end(), static_cast<int>(rank)), neighbours.end());
  }
}

/// The ranks of each node where all nodes have equally many; all ranks otherwise.
int ranks_per_node(const std::vector<int>& node_of_rank, int ranks) {
  std::vector<int> nodes = node_of_rank;
  std::sort(nodes.begin(), nodes.end());
  const auto first = std::upper_bound(nodes.begin(), nodes.end(), nodes.empty() ? 0 : nodes.front()) - nodes.begin();
  const int node_ranks = nodes.empty() ? ranks : static_cast<int>(first);
  for (auto at = nodes.begin(); at != nodes.end();) {
    const auto end = std::upper_bound(at, nodes.end(), *at);
    if (end - at != node_ranks) return ranks;
    at = end;
  }
  return node_ranks;
}

/// Gives position p of the graph to the p-th rank in the order of the nodes.
Graph laid_out(const Graph& graph, const std::vector<int>& node_of_rank) {
  const std::vector<int> rank_at = ranks_by_node(static_cast<int>(graph.size()), node_of_rank);
  Graph result(graph.size());
  for (std::size_t position = 0; position < graph.size(); ++position) {
    for (const int neighbour : graph[position]) {
      result[static_cast<std::size_t>(rank_at[position])].push_back(rank_at[static_cast<std::size_t>(neighbour)]);
    }
  }
  return result;
}

}  // namespace

std::vector<int> ranks_by_node(int ranks, const std::vector<int>& node_of_rank) {
  HALOGRAD_REQUIRE(node_of_rank.empty() || static_cast<int>(node_of_rank.size()) == ranks, "topology: the nodes of ",
                   node_of_rank.size(), " ranks are given; expected ", ranks);
  std::vector<int> rank_at(static_cast<std::size_t>(ranks));
  std::iota(rank_at.begin(), rank_at.end(), 0);
  if (!node_of_rank.empty()) {
    std::stable_sort(rank_at.begin(), rank_at.end(), [&](int a, int b) {
      return node_of_rank[static_cast<std::size_t>(a)] < node_of_rank[static_cast<std::size_t>(b)];
    });
  }
  return rank_at;
}

std::vector<int> distances_from_0(const Graph& next) {
  std::vector<int> distance(next.size(), -1), queue{0};
  distance[0] = 0;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const auto rank = static_cast<std::size_t>(queue[head]);
    for (const int neighbour : next[rank]) {
      if (distance[static_cast<std::size_t>(neighbour)] >= 0) continue;
      distance[static_cast<std::size_t>(neighbour)] = distance[rank] + 1;
      queue.push_back(neighbour);
    }
  }
  return distance;
}

Graph make_graph(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank) {
  HALOGRAD_REQUIRE(node_of_rank.empty() || static_cast<int>(node_of_rank.size()) == ranks, "topology: the nodes of ",
                   node_of_rank.size(), " ranks are given; expected ", ranks);
  const TopologyRow& row = row_of(config);
  HALOGRAD_REQUIRE(*row.graph != nullptr, "topology.kind is \"", config.kind,
                   "\", which is not one graph for all steps");
  Graph graph = row.graph(GraphRequest{config, ranks, ranks_per_node(node_of_rank, ranks)});
  graph = laid_out(graph, node_of_rank);
  tidy(graph);
  return graph;
}

bool is_undirected(const Graph& graph) {
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    for (const int neighbour : graph[rank]) {
      const std::vector<int>& back = graph[static_cast<std::size_t>(neighbour)];
      if (!std::binary_search(back.begin(), back.end(), static_cast<int>(rank))) return false;
    }
  }
  return true;
}

}  // namespace halograd
