#pragma once

#include <complex>
#include <vector>

#include "graph/topology.hpp"

namespace halograd {

/// 1 - |lambda_2| of the mixing matrix by whichever of the next two suits it; 1 for one rank.
double spectral_gap(const Topology& topology);

/// Ranks up to which spectral_gap takes all eigenvalues of the dense matrix.
constexpr int most_dense_ranks = 512;

/// 1 - |lambda_2| from all eigenvalues of the dense mixing matrix: time grows with ranks^3.
double dense_spectral_gap(const Topology& topology);

/// The same by products with the sparse matrix alone: Lanczos where it is symmetric, Arnoldi otherwise, both beside the
/// constant vector. They start from the distances from rank 0, which are close to the slowest mode of rings and lines,
/// with some noise. Good to about three digits of the gap or to 1e-14, whichever is more.
double sparse_spectral_gap(const Topology& topology);

/// All eigenvalues of a dense (rows, rows) matrix (LAPACK's dgeev).
std::vector<std::complex<double>> eigenvalues(std::vector<double> matrix, int rows);

}  // namespace halograd
