#pragma once

#include <vector>

#include "comm/topology.hpp"
#include "kernels/sparse_product.hpp"

/// Mixing alone, of any number of ranks in one process: how fast replicas agree when no gradients act.
namespace halograd {

/// The mixing matrix of a topology.
SparseMatrix sparse_mixing_matrix(const Topology& topology);

/// The mixing matrices of the one-peer exponential graph, one a step, over and over: x_i <- (x_i + x_(i - 2^k)) / 2 mod
/// P for k = 0, 1, ... (Assran et al., 2019; Ying et al., 2021). One matrix of the whole weight for one rank.
std::vector<SparseMatrix> one_peer_exponential_matrices(int ranks);

struct MixingOptions {
  int columns = 16;         ///< parameters of a simulated replica
  double tolerance = 0.01;  ///< the consensus distance, relative to its start, at which to end
  long most_steps = 1000;
};

/// Replicas that start as independent random numbers are mixed with the matrices in turn until their consensus distance
/// (root mean square over ranks of ||x_i - mean||) is at most `tolerance` times its start, or after `most_steps`. The
/// distance after each step, relative to the start; one 0 for one rank.
std::vector<double> simulate_mixing(const ExecutionSpace& exec, const std::vector<SparseMatrix>& matrices,
                                    const MixingOptions& options);

}  // namespace halograd
