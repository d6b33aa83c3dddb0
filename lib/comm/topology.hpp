#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace halograd {

/// One entry of a row of the mixing matrix: rank `rank` enters the average with `weight`.
struct Neighbour {
  int rank = 0;
  double weight = 0;
  bool operator==(const Neighbour&) const = default;
};

/// A directed graph on ranks with mixing weights W_ij: x_i <- W_ii x_i + sum_j W_ij x_j over in-neighbours j.
/// Pure data, no MPI. Doubly stochastic and connected by construction (checked).
class Topology {
 public:
  /// `in_neighbours[i]` are the ranks that i averages with (not i itself), in ascending order of rank; the self weight is what is left to 1.
  /// Throws Error unless all weights are positive, self weights not negative, columns sum to 1 and the graph is strongly connected.
  Topology(std::string kind, std::vector<std::vector<Neighbour>> in_neighbours);

  [[nodiscard]] const std::string& kind() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] const std::vector<Neighbour>& in_neighbours(int rank) const;
  /// The ranks whose average `rank` enters; `weight` is the weight there.
  [[nodiscard]] const std::vector<Neighbour>& out_neighbours(int rank) const;
  [[nodiscard]] double self_weight(int rank) const;
  /// The mixing matrix W, row major (ranks, ranks).
  [[nodiscard]] std::vector<double> matrix() const;

 private:
  std::string kind_;
  std::vector<std::vector<Neighbour>> in_, out_;
  std::vector<double> self_;
};

/// The one factory: ring, torus2d, exponential, complete or file, for any number of ranks from 1.
Topology make_topology(const TopologyConfig& config, int ranks);

/// 1 - |lambda_2| of the mixing matrix (LAPACK's dgeev); 1 for one rank.
double spectral_gap(const Topology& topology);

}  // namespace halograd
