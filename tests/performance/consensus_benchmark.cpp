// How fast replicas agree when no gradients act, by the real exchange, beside the spectral rate |lambda_2|:
//   mpiexec -n 8 halograd_consensus_benchmark [floats]
// A line a static topology: the factor by which the distance to the mean shrinks a step, measured from where the
// slowest mode dominates to where single precision begins to show, and how far it is from the rate.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "averagers/averager.hpp"
#include "graph/spectral_gap.hpp"
#include "kernels/random.hpp"
#include "mpi/communicator.hpp"

namespace {

using halograd::Buffer;
using halograd::Communicator;

/// sqrt(sum over ranks of |x_i - mean|^2)
double distance_to_mean(const Communicator& comm, const Buffer<float>& replica) {
  const auto own = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), replica);
  const Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace> mean("mean", own.extent(0));
  Kokkos::deep_copy(mean, own);
  comm.mean(mean);
  double sum = 0;
  for (std::size_t i = 0; i < own.extent(0); ++i) {
    sum += (static_cast<double>(own(i)) - mean(i)) * (static_cast<double>(own(i)) - mean(i));
  }
  return std::sqrt(comm.sum(sum));
}

void measure(const Communicator& comm, const std::string& kind, std::size_t length) {
  halograd::TopologyConfig graph;
  graph.kind = kind;
  const halograd::Topology topology = halograd::make_topology(graph, comm.ranks());
  const double rate = 1 - halograd::spectral_gap(topology);
  const bool at_once = rate < 1e-6;  // one step brings agreement: no rate to measure
  const int last = at_once ? 2 : static_cast<int>(std::ceil(std::log(1e-4) / std::log(rate)));
  const int first = at_once ? 0 : last / 2;

  const Buffer<float> replica("replica", length), gradient("gradient", length);
  const auto start = Kokkos::create_mirror_view(replica);
  for (std::size_t i = 0; i < length; ++i) {
    start(i) = halograd::random_uniform(static_cast<std::uint64_t>(comm.rank()), i);
  }
  Kokkos::deep_copy(replica, start);

  halograd::AveragerConfig averaging;
  averaging.name = "neighbour";
  const auto averager = halograd::make_averager({averaging, halograd::CommConfig(), topology, comm.handle(), length});
  const halograd::ExecutionSpace exec;
  double before = 0;
  for (int step = 0; step < last; ++step) {
    if (step == first) before = distance_to_mean(comm, replica);
    averager->before_gradient(exec, step, replica);
    averager->before_update(exec, step, replica, gradient, 1.0 / comm.ranks());
    averager->after_update(exec, step, replica);
  }
  const double measured = std::pow(distance_to_mean(comm, replica) / before, 1.0 / (last - first));
  if (comm.rank() != 0) return;
  if (at_once) {
    std::printf("| %s | %d | 0 | %.1e | |\n", kind.c_str(), comm.ranks(), measured);
  } else {
    std::printf("| %s | %d | %.4f | %.4f | %+.1f %% |\n", kind.c_str(), comm.ranks(), rate, measured,
                100 * (measured / rate - 1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Kokkos::initialize(argc, argv);
  {
    const Communicator comm(MPI_COMM_WORLD);
    const std::size_t length = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
    if (comm.rank() == 0) std::printf("| topology | ranks | rate | measured | apart |\n|---|---|---|---|---|\n");
    for (const char* kind : {"ring", "line", "grid2d", "torus2d", "torus3d", "hypercube", "exponential",
                             "random_regular", "star", "complete"}) {
      measure(comm, kind, length);
    }
  }
  Kokkos::finalize();
  MPI_Finalize();
}
