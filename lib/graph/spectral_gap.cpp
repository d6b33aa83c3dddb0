#include "graph/spectral_gap.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/error.hpp"

// LAPACK names it.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" void dgeev_(const char* left_vectors, const char* right_vectors, const int* n, double* a, const int* lda,
                       double* real, double* imaginary, double* left, const int* ld_left, double* right,
                       const int* ld_right, double* work, const int* work_size, int* info);

namespace halograd {

std::vector<std::complex<double>> eigenvalues(std::vector<double> matrix, int rows) {
  std::vector<double> real(rows), imaginary(rows);
  const int work_size = 64 * rows;
  std::vector<double> work(work_size);
  const int one = 1;
  int info = 0;
  dgeev_("N", "N", &rows, matrix.data(), &rows, real.data(), imaginary.data(), nullptr, &one, nullptr, &one,
         work.data(), &work_size, &info);
  HALOGRAD_REQUIRE(info == 0, "LAPACK dgeev failed on a matrix of ", rows, " rows (info ", info, ")");
  std::vector<std::complex<double>> found;
  found.reserve(real.size());
  for (std::size_t i = 0; i < real.size(); ++i) found.emplace_back(real[i], imaginary[i]);
  return found;
}

double spectral_gap(const Topology& topology) {
  return topology.ranks() <= most_dense_ranks ? dense_spectral_gap(topology) : sparse_spectral_gap(topology);
}

double dense_spectral_gap(const Topology& topology) {
  const int ranks = topology.ranks();
  if (ranks == 1) return 1;
  // Row major: LAPACK sees the transpose, whose eigenvalues are the same.
  std::vector<std::complex<double>> all = eigenvalues(topology.matrix(), ranks);
  // One eigenvalue is 1 (the mean, which mixing keeps); the gap is set by the largest of the others.
  const auto distance_to_1 = [](const auto& a, const auto& b) { return std::abs(a - 1.0) < std::abs(b - 1.0); };
  all.erase(std::min_element(all.begin(), all.end(), distance_to_1));
  double second = 0;
  for (const auto& eigenvalue : all) second = std::max(second, std::abs(eigenvalue));
  return 1 - second;
}

}  // namespace halograd
