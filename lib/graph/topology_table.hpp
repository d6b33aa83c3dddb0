#pragma once

#include <cstdint>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/graphs.hpp"
#include "graph/topology.hpp"
#include "support/table.hpp"

/// What a topology can be (topology.kind), and its mixing weights (topology.weights). A topology is a function and its
/// row in topology_table.cpp.
namespace halograd {

/// The graph that is asked for.
struct GraphRequest {
  const TopologyConfig& config;
  int ranks;       ///< at least 1
  int node_ranks;  ///< ranks of a node where all nodes have equally many; all ranks otherwise
};

/// A step of a graph that changes: where each rank takes from.
struct StepRequest {
  const std::vector<int>& rank_at;  ///< which rank has which position
  std::uint64_t seed;
  std::int64_t step;
};

struct TopologyRow {
  const char* name;
  Fact<const char*> meaning;
  /// The in-neighbours of the position of each rank; a rank may be named twice, or name itself. Null: it changes, or is
  /// a file's.
  Fact<Graph (*)(const GraphRequest&)> graph;
  /// The one rank that each rank takes from in a step; itself: none. Null: the graph does not change.
  Fact<std::vector<int> (*)(const StepRequest&)> sources;
  /// Steps after which a graph that changes repeats, by the number of ranks; null: it does not.
  Fact<std::int64_t (*)(int)> period;
  Fact<bool> pauses_one;  ///< of an odd number of ranks one has no partner in a step
  Fact<bool> one_way;     ///< its edges do not go both ways; those of a file are known when it is read
  Fact<bool> from_file;
  Fact<std::vector<const char*>> keys;  ///< of [topology] that it alone reads
  Fact<int> slow_above;                 ///< more ranks than these it mixes slowly; 0: no such number
  Fact<int> most_planned;               ///< ranks that `halograd plan` considers it for; 0: for none
  Fact<int> most_simulated;             ///< ranks that `halograd simulate` takes it for; 0: for none
  [[nodiscard]] bool changes() const { return *sources != nullptr; }
};

/// The rows in the order in which messages and documents list them.
const std::vector<TopologyRow>& topologies();
/// Throws Error for an unknown kind.
const TopologyRow& row_of(const TopologyConfig& topology);

/// topology.weights.
struct WeightRow {
  const char* name;
  Fact<const char*> meaning;
  /// Null: no mixing matrix, every rank splits its weights evenly (DynamicTopology).
  Fact<std::vector<std::vector<Neighbour>> (*)(const Graph&)> weights;
  Fact<bool> from_file;  ///< those of a file come before these
};
const std::vector<WeightRow>& weight_rules();
/// Throws Error for an unknown rule.
const WeightRow& weight_row_of(const std::string& rule);

}  // namespace halograd
