#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "graph/spectral_gap.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"

// LAPACK names it.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" void dsterf_(const int* n, double* diagonal, double* off_diagonal, int* info);

namespace halograd {
namespace {

using Vectors = std::vector<std::vector<double>>;

constexpr int first_check = 24;        // products before the first look at the eigenvalues
constexpr int most_symmetric = 12000;  // products
constexpr int most_directed = 240;     // products; each keeps a vector
constexpr double good_enough = 3e-5;   // change of the gap from check to check, relative
constexpr double start_noise = 1e-6;   // so that no mode is missing from the start
constexpr double breakdown = 1e-14;    // of a unit vector, what is left of it is rounding

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(double factor, const std::vector<double>& from, std::vector<double>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

void subtract_mean(std::vector<double>& vector) {
  double sum = 0;
  for (const double value : vector) sum += value;
  for (double& value : vector) value -= sum / static_cast<double>(vector.size());
}

/// Scales to length 1 and returns the length that it had.
double normalise(std::vector<double>& vector) {
  const double length = std::sqrt(dot(vector, vector));
  if (length > 0) {
    for (double& value : vector) value /= length;
  }
  return length;
}

/// W x without its part along the constant vector, which W keeps.
void mix(const Topology& topology, const std::vector<double>& x, std::vector<double>& y) {
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    double sum = topology.self_weight(rank) * x[static_cast<std::size_t>(rank)];
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      sum += neighbour.weight * x[static_cast<std::size_t>(neighbour.rank)];
    }
    y[static_cast<std::size_t>(rank)] = sum;
  }
  subtract_mean(y);
}

std::vector<double> start_vector(const Topology& topology) {
  const std::vector<int> distances = distances_from_0(step_graph(topology.graph()).out);
  const double farthest = *std::max_element(distances.begin(), distances.end());
  std::vector<double> start;
  start.reserve(distances.size());
  for (const int distance : distances) {
    const double noise = random_uniform(1, start.size()) - 0.5;
    start.push_back(std::cos(M_PI * distance / farthest) + start_noise * noise);
  }
  subtract_mean(start);
  normalise(start);
  return start;
}

bool is_symmetric(const Topology& topology) {
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const std::vector<Neighbour>&in = topology.in_neighbours(rank), &out = topology.out_neighbours(rank);
    const auto same = [](const Neighbour& a, const Neighbour& b) {
      return a.rank == b.rank && std::abs(a.weight - b.weight) <= 1e-12;
    };
    if (!std::equal(in.begin(), in.end(), out.begin(), out.end(), same)) return false;
  }
  return true;
}

/// Says when an estimate that is looked at again and again has come to rest.
class Rest {
 public:
  /// Whether the gap of this second eigenvalue has hardly changed at two checks in a row.
  bool operator()(double second) {
    const double gap = 1 - second;
    calm_ = std::abs(gap - last_) <= good_enough * std::abs(gap) ? calm_ + 1 : 0;
    last_ = gap;
    return calm_ == 2;
  }

 private:
  double last_ = 2;
  int calm_ = 0;
};

double largest_of_tridiagonal(std::vector<double> diagonal, std::vector<double> off_diagonal) {
  const int n = static_cast<int>(diagonal.size());
  int info = 0;
  dsterf_(&n, diagonal.data(), off_diagonal.data(), &info);  // ascending
  HALOGRAD_REQUIRE(info == 0, "LAPACK dsterf failed on a tridiagonal matrix of ", n, " rows (info ", info, ")");
  return std::max(std::abs(diagonal.front()), std::abs(diagonal.back()));
}

/// Lanczos (1950), without orthogonalisation against earlier vectors: it costs copies of eigenvalues, no wrong ones.
double lanczos(const Topology& topology) {
  std::vector<double> now = start_vector(topology), before(now.size(), 0.0), next(now.size());
  std::vector<double> diagonal, off_diagonal;
  Rest at_rest;
  int check = first_check;
  double second = 0;
  for (int product = 1; product <= most_symmetric; ++product) {
    mix(topology, now, next);
    diagonal.push_back(dot(now, next));
    add(-diagonal.back(), now, next);
    if (product > 1) add(-off_diagonal.back(), before, next);
    off_diagonal.push_back(normalise(next));
    const bool over = off_diagonal.back() < breakdown;
    if (product == check || over || product == most_symmetric) {
      second = largest_of_tridiagonal(diagonal, off_diagonal);
      if (at_rest(second) || over) break;
      check += check / 3;
    }
    before.swap(now);
    now.swap(next);
  }
  return second;
}

/// Arnoldi (1951), every vector orthogonal to all earlier ones.
double arnoldi(const Topology& topology) {
  Vectors basis{start_vector(topology)};
  Vectors projected;  // column k: W basis[k] in terms of the basis
  Rest at_rest;
  int check = first_check;
  double second = 0;
  for (int product = 1; product <= std::min(most_directed, topology.ranks() - 1); ++product) {
    std::vector<double> next(basis.front().size());
    mix(topology, basis.back(), next);
    std::vector<double> column(basis.size() + 1, 0.0);
    for (int pass = 0; pass < 2; ++pass) {  // the second takes away what rounding has left
      for (std::size_t i = 0; i < basis.size(); ++i) {
        const double part = dot(basis[i], next);
        column[i] += part;
        add(-part, basis[i], next);
      }
    }
    column.back() = normalise(next);
    const bool over = column.back() < breakdown;
    projected.push_back(std::move(column));
    if (product == check || over || product == std::min(most_directed, topology.ranks() - 1)) {
      std::vector<double> matrix(static_cast<std::size_t>(product) * static_cast<std::size_t>(product), 0.0);
      for (std::size_t k = 0; k < projected.size(); ++k) {
        const auto rows = static_cast<std::ptrdiff_t>(std::min(projected[k].size(), projected.size()));
        std::copy_n(projected[k].begin(), rows, matrix.begin() + static_cast<std::ptrdiff_t>(k * projected.size()));
      }
      second = 0;
      for (const auto& eigenvalue : eigenvalues(std::move(matrix), product)) {
        second = std::max(second, std::abs(eigenvalue));
      }
      if (at_rest(second) || over) break;
      check += check / 3;
    }
    basis.push_back(std::move(next));
  }
  return second;
}

}  // namespace

double sparse_spectral_gap(const Topology& topology) {
  if (topology.ranks() == 1) return 1;
  return 1 - (is_symmetric(topology) ? lanczos(topology) : arnoldi(topology));
}

}  // namespace halograd
