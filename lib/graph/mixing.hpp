#pragma once

#include <vector>

#include "graph/dynamic_topology.hpp"
#include "graph/topology.hpp"
#include "kernels/sparse_product.hpp"

/// Mixing alone, of any number of ranks in one process: how fast replicas agree when no gradients act.
namespace halograd {

/// The mixing matrix of a topology.
SparseMatrix sparse_mixing_matrix(const Topology& topology);

/// The mixing matrices of the steps in which the topology's graphs repeat.
std::vector<SparseMatrix> sparse_mixing_matrices(const DynamicTopology& topology);

struct MixingOptions {
  int columns = 16;         ///< parameters of a simulated replica
  double tolerance = 0.01;  ///< the consensus distance, relative to its start, at which to end
  long most_steps = 1000;
};

/// Replicas that start as independent random numbers are mixed with the matrices in turn until their consensus distance
/// (root mean square over ranks of ||x_i - mean||) is at most `tolerance` times its start, or after `most_steps`. The
/// distance after each step, relative to the start; one 0 for one rank. The columns of the matrices sum to 1. Where
/// their rows do not, replicas are x_i / w_i with numbers w that start as 1 and are mixed as well (push-sum).
std::vector<double> simulate_mixing(const ExecutionSpace& exec, const std::vector<SparseMatrix>& matrices,
                                    const MixingOptions& options);

/// Share of the distance between replicas that an exchange takes away: the spectral gap or, where the graph changes,
/// 1 - 0.1^(1/n) with the number n of exchanges that bring the distance to a tenth. 1 for one rank. Throws Error
/// for graphs that do not repeat.
double mixing_rate(const ExecutionSpace& exec, const Topology& topology);

}  // namespace halograd
