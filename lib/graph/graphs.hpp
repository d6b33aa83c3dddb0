#pragma once

#include <vector>

#include "config/comm_config.hpp"

namespace halograd {

/// In-neighbours of each rank, ascending, each once and never the rank itself.
using Graph = std::vector<std::vector<int>>;

/// The graph of `config.kind` on `ranks` >= 1 ranks (docs/algorithms.md, "Topologies"). `node_of_rank` (empty: all on
/// one node) lays it out so that most edges stay inside a node: positions in the graph go to the ranks node by node,
/// and grids and tori are cut into one tile a node. Throws Error for an unknown kind.
Graph make_graph(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank = {});

/// The ranks in the order of their nodes, ranks of a node in their own: who gets which position in a graph.
std::vector<int> ranks_by_node(int ranks, const std::vector<int>& node_of_rank);

/// Steps from rank 0 to each rank, where `next` are those to which edges go from each; -1 where there is no path.
std::vector<int> distances_from_0(const Graph& next);

/// Whether every edge goes both ways.
bool is_undirected(const Graph& graph);

}  // namespace halograd
