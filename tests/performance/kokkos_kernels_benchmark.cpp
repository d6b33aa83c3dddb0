// What Kokkos Kernels would gain or lose where halograd multiplies matrices itself: the dense layers of lenet5 and
// vgg_small beside KokkosBlas::gemm, and the spectral gap's products beside KokkosSparse::spmv. Both are run in turns,
// so that a busy machine slows both; what counts is the median of the ratios.   kokkos_kernels_benchmark [TURNS]

#include <Kokkos_Core.hpp>
#include <cstdio>

#ifdef HALOGRAD_KOKKOS_KERNELS
#include <KokkosKernels_config.h>
#include <KokkosBlas3_gemm.hpp>
#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "graph/topology.hpp"
#include "kernels/conv.hpp"

namespace halograd {
namespace {

int turns = 15;

double seconds(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  Kokkos::fence();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Prints both medians and the median of the ratios: above 1, Kokkos Kernels is slower.
void compare(const std::string& name, const std::function<void()>& ours, const std::function<void()>& theirs) {
  ours();
  theirs();
  Kokkos::fence();
  std::vector<double> of_ours, of_theirs, ratios;
  for (int turn = 0; turn < turns; ++turn) {
    of_ours.push_back(seconds(ours));
    of_theirs.push_back(seconds(theirs));
    ratios.push_back(of_theirs.back() / of_ours.back());
  }
  std::printf("%-28s %10.1f %10.1f %8.2f\n", name.c_str(), 1e6 * median(of_ours), 1e6 * median(of_theirs),
              median(ratios));
}

void dense_layer(const std::string& name, int channels, int filters) {
  using Matrix = Kokkos::View<float**, Kokkos::LayoutRight, MemorySpace>;
  ConvShape shape;
  shape.batch = 64;
  shape.channels = channels;
  shape.filters = filters;
  const Matrix x("x", shape.batch, channels), weights("weights", channels, filters), y("y", shape.batch, filters);
  for (const Matrix& matrix : {x, weights, y}) Kokkos::deep_copy(matrix, 0.5F);
  const Vector<float> flat_x(x.data(), x.size()), flat_weights(weights.data(), weights.size()),
      flat_y(y.data(), y.size());
  const Buffer<std::byte> scratch("workspace", conv_workspace<float>(shape));
  const ExecutionSpace exec;
  compare(
      name + " forward", [&] { conv_forward<float>(exec, shape, flat_x, flat_weights, {}, false, flat_y, scratch); },
      [&] { KokkosBlas::gemm("N", "N", 1.0F, x, weights, 0.0F, y); });
  compare(
      name + " input gradient",
      [&] { conv_backward_data<float>(exec, shape, flat_y, flat_weights, {}, flat_x, false, scratch); },
      [&] { KokkosBlas::gemm("N", "T", 1.0F, y, weights, 0.0F, x); });
  compare(
      name + " weight gradient",
      [&] { conv_backward_weights<float>(exec, shape, flat_x, flat_y, flat_weights, {}, scratch); },
      [&] { KokkosBlas::gemm("T", "N", 1.0F, x, y, 0.0F, weights); });
}

/// y = W x: the loop of lib/graph/sparse_spectral_gap.cpp, and the same as a sparse matrix. On the host both times.
void mixing(const std::string& kind, int ranks) {
  using Host = Kokkos::DefaultHostExecutionSpace;
  using Crs = KokkosSparse::CrsMatrix<double, int, Kokkos::Device<Host, Kokkos::HostSpace>, void, int>;
  TopologyConfig config;
  config.kind = kind;
  const Topology topology = make_topology(config, ranks);
  std::vector<int> rows{0}, columns;
  std::vector<double> weights;
  for (int rank = 0; rank < ranks; ++rank) {
    columns.push_back(rank);
    weights.push_back(topology.self_weight(rank));
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      columns.push_back(neighbour.rank);
      weights.push_back(neighbour.weight);
    }
    rows.push_back(static_cast<int>(columns.size()));
  }
  const Crs matrix(
      "mixing", ranks, ranks, static_cast<int>(columns.size()),
      Kokkos::View<double*, Kokkos::HostSpace>(weights.data(), weights.size()),
      Kokkos::View<int*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(rows.data(), rows.size()),
      Kokkos::View<int*, Kokkos::HostSpace>(columns.data(), columns.size()));
  std::vector<double> x(static_cast<std::size_t>(ranks), 0.5), y(x.size());
  const Kokkos::View<double*, Kokkos::HostSpace> x_view(x.data(), x.size()), y_view(y.data(), y.size());
  compare(
      kind + " of " + std::to_string(ranks) + " ranks",
      [&] {
        for (int rank = 0; rank < ranks; ++rank) {
          double sum = topology.self_weight(rank) * x[static_cast<std::size_t>(rank)];
          for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
            sum += neighbour.weight * x[static_cast<std::size_t>(neighbour.rank)];
          }
          y[static_cast<std::size_t>(rank)] = sum;
        }
      },
      [&] { KokkosSparse::spmv("N", 1.0, matrix, x_view, 0.0, y_view); });
}

}  // namespace
}  // namespace halograd

int main(int argc, char** argv) {
  using namespace halograd;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  if (argc > 1) turns = std::max(1, std::atoi(argv[1]));
#ifdef KOKKOSKERNELS_ENABLE_TPL_BLAS
  const char* const blas = "the system's BLAS";
#else
  const char* const blas = "its own kernels";
#endif
  std::printf("%d threads; KokkosBlas::gemm uses %s; medians of %d turns\n",
              static_cast<int>(ExecutionSpace().concurrency()), blas, turns);
  std::printf("%-28s %10s %10s %8s\n", "", "ours, us", "theirs, us", "ratio");
  dense_layer("lenet5 dense1", 800, 500);
  dense_layer("lenet5 dense2", 500, 10);
  dense_layer("vgg_small dense1", 4096, 256);
  dense_layer("vgg_small dense2", 256, 10);
  for (const int ranks : {1024, 65536}) {
    mixing("torus2d", ranks);
    mixing("exponential", ranks);
  }
  return 0;
}
#else
int main() {
  std::puts("built without Kokkos Kernels");
  return 0;
}
#endif
