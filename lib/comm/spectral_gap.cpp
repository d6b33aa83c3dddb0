#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "comm/topology.hpp"
#include "kernels/error.hpp"

// LAPACK names it.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" void dgeev_(const char* left_vectors, const char* right_vectors, const int* n, double* a, const int* lda,
                       double* real, double* imaginary, double* left, const int* ld_left, double* right,
                       const int* ld_right, double* work, const int* work_size, int* info);

namespace halograd {

double spectral_gap(const Topology& topology) {
  const int n = topology.ranks();
  if (n == 1) return 1;

  std::vector<double> matrix =
      topology.matrix();  // row major: LAPACK sees the transpose, whose eigenvalues are the same
  std::vector<double> real(n), imaginary(n);
  const int work_size = 64 * n;
  std::vector<double> work(work_size);
  const int one = 1;
  int info = 0;
  dgeev_("N", "N", &n, matrix.data(), &n, real.data(), imaginary.data(), nullptr, &one, nullptr, &one, work.data(),
         &work_size, &info);
  HALOGRAD_REQUIRE(info == 0, "LAPACK dgeev failed on the mixing matrix of ", n, " ranks (info ", info, ")");

  // One eigenvalue is 1 (the mean, which mixing keeps); the gap is set by the largest of the others.
  std::vector<std::complex<double>> eigenvalues(n);
  for (int i = 0; i < n; ++i) eigenvalues[i] = {real[i], imaginary[i]};
  const auto distance_to_1 = [](const auto& a, const auto& b) { return std::abs(a - 1.0) < std::abs(b - 1.0); };
  eigenvalues.erase(std::min_element(eigenvalues.begin(), eigenvalues.end(), distance_to_1));
  double second = 0;
  for (const auto& eigenvalue : eigenvalues) second = std::max(second, std::abs(eigenvalue));
  return 1 - second;
}

}  // namespace halograd
