#include "graph/topology.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "graph/topology_file.hpp"
#include "graph/topology_table.hpp"
#include "kernels/error.hpp"

namespace halograd {

Topology::Topology(std::string kind, std::vector<std::vector<Neighbour>> in_neighbours)
    : kind_(std::move(kind)), in_(std::move(in_neighbours)), out_(in_.size()), self_(in_.size(), 1.0) {
  HALOGRAD_REQUIRE(!in_.empty(), "topology: no ranks");
  for (int rank = 0; rank < ranks(); ++rank) {
    double sum = 0;
    int previous = -1;
    for (const Neighbour& neighbour : in_[rank]) {
      HALOGRAD_REQUIRE(neighbour.rank > previous && neighbour.rank < ranks() && neighbour.rank != rank,
                       "topology: in-neighbour ", neighbour.rank, " of rank ", rank,
                       " is out of range or order; expected other ranks below ", ranks(), ", ascending");
      HALOGRAD_REQUIRE(neighbour.weight > 0, "topology: the weight from rank ", neighbour.rank, " to rank ", rank,
                       " is ", neighbour.weight, "; expected a positive number");
      sum += neighbour.weight;
      previous = neighbour.rank;
      out_[neighbour.rank].push_back({rank, neighbour.weight});
    }
    HALOGRAD_REQUIRE(sum <= 1 + 1e-9, "topology: the weights of the edges to rank ", rank, " (row ", rank,
                     " of the mixing matrix) sum to ", sum, ", which leaves a self weight of ", 1 - sum,
                     "; expected at most 1");
    self_[rank] = std::max(0.0, 1 - sum);
  }
  check_connected();
  check_columns();
}

Topology::Topology(DynamicTopology dynamic)
    : kind_(dynamic.kind()),
      in_(static_cast<std::size_t>(dynamic.ranks())),
      out_(in_.size()),
      self_(in_.size(), 1.0),
      dynamic_(std::make_shared<const DynamicTopology>(std::move(dynamic))) {}

void Topology::check_connected() const {
  const std::vector<int> from = distances_from_0(without_weights(out_));
  const std::vector<int> to = distances_from_0(without_weights(in_));
  int period = 0;  // of the graph: the greatest common divisor of the lengths of all its cycles
  for (int rank = 0; rank < ranks(); ++rank) {
    HALOGRAD_REQUIRE(from[rank] >= 0, "topology: not connected: rank ", rank, " cannot be reached from rank 0");
    HALOGRAD_REQUIRE(to[rank] >= 0, "topology: not connected: rank 0 cannot be reached from rank ", rank);
    for (const Neighbour& neighbour : out_[rank]) {
      period = std::gcd(period, std::abs(from[rank] + 1 - from[neighbour.rank]));
    }
    if (self_[rank] > 0) period = 1;
  }
  HALOGRAD_REQUIRE(
      period == 1, "topology: all self weights are 0 and every cycle has a multiple of ", period,
      " edges, so that replicas are swapped and never agree; give at least one rank a positive self weight");
}

void Topology::check_columns() const {
  for (int rank = 0; rank < ranks(); ++rank) {
    double sum = self_[rank];
    for (const Neighbour& neighbour : out_[rank]) sum += neighbour.weight;
    HALOGRAD_REQUIRE(std::abs(sum - 1) <= 1e-9, "topology: not doubly stochastic: column ", rank,
                     " of the mixing matrix (self weight ", self_[rank], " and the edges from rank ", rank,
                     ") sums to ", sum, "; expected 1, or the mean of the replicas would drift");
  }
}

const std::string& Topology::kind() const {
  return kind_;
}
int Topology::ranks() const {
  return static_cast<int>(in_.size());
}
const std::vector<Neighbour>& Topology::in_neighbours(int rank) const {
  return in_.at(rank);
}
const std::vector<Neighbour>& Topology::out_neighbours(int rank) const {
  return out_.at(rank);
}
double Topology::self_weight(int rank) const {
  return self_.at(rank);
}
double Topology::mean_out(int rank) const {
  return dynamic_ ? dynamic_->mean_out(rank) : static_cast<double>(out_neighbours(rank).size());
}

Graph Topology::graph() const {
  return without_weights(in_);
}

std::vector<double> Topology::matrix() const {
  const std::size_t size = in_.size();
  std::vector<double> matrix(size * size, 0.0);
  for (std::size_t rank = 0; rank < size; ++rank) {
    matrix[rank * size + rank] = self_[rank];
    for (const Neighbour& neighbour : in_[rank]) matrix[rank * size + neighbour.rank] = neighbour.weight;
  }
  return matrix;
}

std::vector<std::vector<Neighbour>> uniform_weights(const Graph& graph) {
  std::vector<std::vector<Neighbour>> weighted(graph.size());
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    const double weight = 1.0 / static_cast<double>(graph[rank].size() + 1);
    for (const int neighbour : graph[rank]) weighted[rank].push_back({neighbour, weight});
  }
  return weighted;
}

std::vector<std::vector<Neighbour>> metropolis_hastings_weights(const Graph& graph) {
  std::vector<std::vector<Neighbour>> weighted(graph.size());
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    for (const int neighbour : graph[rank]) {
      const std::vector<int>& back = graph[neighbour];
      HALOGRAD_REQUIRE(
          std::binary_search(back.begin(), back.end(), static_cast<int>(rank)),
          "topology: metropolis_hastings weights need an undirected graph, but there is an edge from rank ", neighbour,
          " to rank ", rank, " and none back");
      const std::size_t degree = std::max(graph[rank].size(), back.size());
      weighted[rank].push_back({neighbour, 1.0 / static_cast<double>(degree + 1)});
    }
  }
  return weighted;
}

std::vector<std::vector<Neighbour>> automatic_weights(const Graph& graph) {
  return is_undirected(graph) ? metropolis_hastings_weights(graph) : uniform_weights(graph);
}

Topology weighted(const std::string& kind, Graph graph, const std::string& rule) {
  const WeightRow& row = weight_row_of(rule);
  if (*row.weights == nullptr) return Topology(DynamicTopology(kind, std::move(graph)));
  return {kind, row.weights(graph)};
}

Topology make_topology(const TopologyConfig& config, int ranks, const std::vector<int>& node_of_rank) {
  HALOGRAD_REQUIRE(ranks >= 1, "topology: ", ranks, " ranks; expected at least 1");
  const TopologyRow& row = row_of(config);
  if (row.from_file) return read_topology_file(config.file, config.weights, ranks);
  if (row.changes()) return Topology(DynamicTopology(config, ranks, node_of_rank));
  return weighted(config.kind, make_graph(config, ranks, node_of_rank), config.weights);
}

Graph without_weights(const std::vector<std::vector<Neighbour>>& in_neighbours) {
  Graph graph(in_neighbours.size());
  for (std::size_t rank = 0; rank < graph.size(); ++rank) {
    for (const Neighbour& neighbour : in_neighbours[rank]) graph[rank].push_back(neighbour.rank);
  }
  return graph;
}

std::vector<int> nodes_of_consecutive(int ranks, int ranks_per_node) {
  std::vector<int> nodes(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) nodes[static_cast<std::size_t>(rank)] = rank / ranks_per_node;
  return nodes;
}

long crossing_edges(const Topology& topology, const std::vector<int>& node_of_rank) {
  long crossing = 0;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      crossing +=
          node_of_rank.at(static_cast<std::size_t>(rank)) != node_of_rank.at(static_cast<std::size_t>(neighbour.rank))
              ? 1
              : 0;
    }
  }
  return crossing;
}

}  // namespace halograd
