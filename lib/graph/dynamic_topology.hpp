#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/graphs.hpp"

namespace halograd {

/// The edges of one step. Every rank splits its weights evenly among itself and its out-neighbours: W_ij = W_jj =
/// 1 / (out-degree of j + 1): column-stochastic on any graph, and doubly stochastic where all ranks that have edges
/// have equally many in and out.
struct StepGraph {
  Graph in, out;  ///< ascending
  [[nodiscard]] double weight(int from) const {
    return 1.0 / static_cast<double>(out[static_cast<std::size_t>(from)].size() + 1);
  }
};

/// The edges of a graph.
StepGraph step_graph(Graph in_neighbours);

/// A directed graph on ranks that changes from step to step. Pure data, no MPI: the same on all ranks, for any number
/// of them and any step.
class DynamicTopology {
 public:
  /// The rows of topology_table.hpp that change.
  static const std::vector<std::string>& kinds();
  static bool has_kind(const std::string& kind);

  /// One of kinds(). `node_of_rank` (empty: all on one node) gives the ranks of a node neighbouring positions in
  /// one_peer_exponential, so that its short hops stay inside. Throws Error for another kind or no ranks.
  DynamicTopology(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank = {});
  /// The same graph in every step. Throws Error unless every rank can be reached from every other.
  DynamicTopology(std::string kind, Graph in_neighbours);

  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::shared_ptr<const StepGraph> at(std::int64_t step) const;
  /// Whether every step has the same graph.
  [[nodiscard]] bool is_constant() const { return !has_kind(kind_); }
  /// The largest in-degree of a rank in any step.
  [[nodiscard]] int most_in() const { return most_in_; }
  /// Steps after which the graphs repeat; 0: they do not.
  [[nodiscard]] std::int64_t period() const { return static_cast<std::int64_t>(cycle_.size()); }
  /// Out-neighbours that a rank has in a step, in the mean over the steps.
  [[nodiscard]] double mean_out(int rank) const;

 private:
  std::string kind_;
  int ranks_;
  std::uint64_t seed_ = 0;
  int most_in_ = 1;
  std::vector<std::shared_ptr<const StepGraph>> cycle_;  // of graphs that repeat
};

/// Steps of mixing alone until replicas that start as independent random numbers are at most `tolerance` times as far
/// from their mean as at the start; `most` where they never are. On the host, for up to a few thousand ranks.
long steps_to_consensus(const DynamicTopology& topology, double tolerance, long most);

}  // namespace halograd
