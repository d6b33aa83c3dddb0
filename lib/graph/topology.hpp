#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/comm_config.hpp"
#include "graph/dynamic_topology.hpp"
#include "graph/graphs.hpp"

namespace halograd {

/// One entry of a row of the mixing matrix: rank `rank` enters the average with `weight`.
struct Neighbour {
  int rank = 0;
  double weight = 0;
  bool operator==(const Neighbour&) const = default;
};

/// A directed graph on ranks with mixing weights W_ij: x_i <- W_ii x_i + sum_j W_ij x_j over in-neighbours j.
/// Pure data, no MPI. Doubly stochastic, connected and aperiodic by construction (checked): repeated mixing brings all
/// ranks to the mean of their start.
class Topology {
 public:
  /// `in_neighbours[i]` are the ranks that i averages with (not i itself), in ascending order of rank; the self weight
  /// is what is left to 1. Throws Error unless all weights are positive, self weights not negative, columns sum to 1
  /// (within 1e-9), and the graph is strongly connected and not periodic (as a swap of two ranks would be).
  Topology(std::string kind, std::vector<std::vector<Neighbour>> in_neighbours);
  /// A graph that changes from step to step, or whose weights are only column-stochastic: no neighbours here.
  explicit Topology(DynamicTopology dynamic);
  /// Its graphs; null for a graph that does not change.
  [[nodiscard]] const DynamicTopology* dynamic() const { return dynamic_.get(); }

  [[nodiscard]] const std::string& kind() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] const std::vector<Neighbour>& in_neighbours(int rank) const;
  /// The ranks whose average `rank` enters, in ascending order; `weight` is the weight there.
  [[nodiscard]] const std::vector<Neighbour>& out_neighbours(int rank) const;
  [[nodiscard]] double self_weight(int rank) const;
  /// Out-neighbours per step, in the mean over the steps.
  [[nodiscard]] double mean_out(int rank) const;
  /// The in-neighbours alone.
  [[nodiscard]] Graph graph() const;
  /// The mixing matrix W, row major (ranks, ranks).
  [[nodiscard]] std::vector<double> matrix() const;

 private:
  void check_connected() const;
  void check_columns() const;

  std::string kind_;
  std::vector<std::vector<Neighbour>> in_, out_;
  std::vector<double> self_;
  std::shared_ptr<const DynamicTopology> dynamic_;
};

/// The one factory: a graph of make_graph, a DynamicTopology or a file, for any number of ranks from 1, with its mixing
/// weights; those by the rule out_degree are of a DynamicTopology whose graph stays.
/// `node_of_rank` (empty: all on one node) says which ranks share memory; a file's graph stays as it is.
/// Throws Error for an unknown kind or weight rule, and whatever read_topology_file and Topology throw.
Topology make_topology(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank = {});

/// Mixing weights for a graph.
/// uniform: 1 / (degree + 1), doubly stochastic where all ranks have the same in- and out-degree.
/// metropolis_hastings: W_ij = 1 / (1 + max(degree_i, degree_j)) (Xiao, Boyd, Kim, 2007), doubly stochastic on any
/// undirected graph; throws Error where an edge has no counterpart.
std::vector<std::vector<Neighbour>> uniform_weights(const Graph& graph);
std::vector<std::vector<Neighbour>> metropolis_hastings_weights(const Graph& graph);
/// automatic: metropolis_hastings on undirected graphs (on regular ones the same as uniform), uniform on directed ones.
std::vector<std::vector<Neighbour>> automatic_weights(const Graph& graph);

/// A graph with weights by a rule of topology_table.hpp. Throws Error for another name, and whatever Topology throws.
Topology weighted(const std::string& kind, Graph graph, const std::string& rule);

/// The neighbours alone.
Graph without_weights(const std::vector<std::vector<Neighbour>>& neighbours);

/// The node of each rank where `ranks_per_node` consecutive ranks are on one.
std::vector<int> nodes_of_consecutive(int ranks, int ranks_per_node);

/// Edges between ranks on different nodes.
long crossing_edges(const Topology& topology, const std::vector<int>& node_of_rank);

}  // namespace halograd
