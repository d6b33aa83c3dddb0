#include "graph/mixing.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "graph/spectral_gap.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

template <class Value>
Buffer<Value> on_device(const char* label, const std::vector<Value>& values) {
  Buffer<Value> buffer(std::string(label), values.size());
  const HostVector<const Value> host(values.data(), values.size());
  Kokkos::deep_copy(buffer, host);
  return buffer;
}

/// Rows of (rank, weight), the own rank among them.
SparseMatrix sparse_matrix(const std::vector<std::vector<Neighbour>>& rows) {
  std::vector<int> row_begin{0}, column;
  std::vector<double> value;
  for (const std::vector<Neighbour>& row : rows) {
    for (const Neighbour& entry : row) {
      column.push_back(entry.rank);
      value.push_back(entry.weight);
    }
    row_begin.push_back(static_cast<int>(column.size()));
  }
  return {on_device("row_begin", row_begin), on_device("column", column), on_device("value", value)};
}

Matrix independent_replicas(int ranks, int columns) {
  Matrix replicas("replicas", ranks, columns);
  const auto host = Kokkos::create_mirror_view(replicas);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int k = 0; k < columns; ++k) {
      host(rank, k) = random_uniform(static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(rank)) - 0.5;
    }
  }
  Kokkos::deep_copy(replicas, host);
  return replicas;
}

}  // namespace

SparseMatrix sparse_mixing_matrix(const Topology& topology) {
  std::vector<std::vector<Neighbour>> rows;
  rows.reserve(static_cast<std::size_t>(topology.ranks()));
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    rows.push_back(topology.in_neighbours(rank));
    rows.back().push_back({rank, topology.self_weight(rank)});
  }
  return sparse_matrix(rows);
}

std::vector<SparseMatrix> sparse_mixing_matrices(const DynamicTopology& topology) {
  HALOGRAD_REQUIRE(topology.period() > 0, "topology ", topology.kind(), ": its graphs do not repeat");
  std::vector<SparseMatrix> matrices;
  for (std::int64_t step = 0; step < topology.period(); ++step) {
    const auto graph = topology.at(step);
    std::vector<std::vector<Neighbour>> rows(graph->in.size());
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      rows[rank].push_back({static_cast<int>(rank), graph->weight(static_cast<int>(rank))});
      for (const int from : graph->in[rank]) rows[rank].push_back({from, graph->weight(from)});
    }
    matrices.push_back(sparse_matrix(rows));
  }
  return matrices;
}

std::vector<double> simulate_mixing(const ExecutionSpace& exec, const std::vector<SparseMatrix>& matrices,
                                    const MixingOptions& options) {
  HALOGRAD_REQUIRE(!matrices.empty(), "simulate_mixing: no mixing matrix");
  const int ranks = static_cast<int>(matrices.front().row_begin.extent(0)) - 1;
  if (ranks == 1) return {0};
  Matrix now = independent_replicas(ranks, options.columns + 1);
  Matrix next("replicas", ranks, options.columns + 1);
  subtract_column_means(exec, now);  // mixing keeps the means, so that what is left is the distance to them
  Kokkos::deep_copy(exec, Kokkos::subview(now, Kokkos::ALL, options.columns), 1.0);  // w
  const double start = norm_by_last(exec, now);
  std::vector<double> distances;
  for (long step = 0; step < options.most_steps; ++step) {
    sparse_product(exec, matrices[static_cast<std::size_t>(step) % matrices.size()], now, next);
    std::swap(now, next);
    distances.push_back(norm_by_last(exec, now) / start);
    if (distances.back() <= options.tolerance) break;
  }
  return distances;
}

double mixing_rate(const ExecutionSpace& exec, const Topology& topology) {
  if (topology.ranks() == 1) return 1;
  const DynamicTopology* const changing = topology.dynamic();
  if (changing == nullptr) return spectral_gap(topology);
  const MixingOptions to_a_tenth{8, 0.1, 1000};
  const std::vector<double> distances = simulate_mixing(exec, sparse_mixing_matrices(*changing), to_a_tenth);
  return 1 - std::pow(to_a_tenth.tolerance, 1 / static_cast<double>(distances.size()));
}

}  // namespace halograd
