// The exchange of a model between neighbours, beside MPI_Iallreduce of the same buffer and a copy in memory:
//   mpiexec -n 2 exchange_benchmark [floats] [repetitions] [topology]
// Prints the median over repetitions of the slowest rank's time, in milliseconds.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"
#include "window/halo_window.hpp"

namespace {

using halograd::HaloWindow;
using halograd::HostVector;

/// Milliseconds: every repetition begins together and ends with its slowest rank.
template <class Exchange>
double median_time(int repetitions, const Exchange& exchange) {
  std::vector<double> times(repetitions);
  for (double& time : times) {
    halograd::Communicator(MPI_COMM_WORLD).barrier();  // MPI_Barrier would spin, at the cost of ranks on the same core
    const double start = MPI_Wtime();
    exchange();
    time = halograd::Communicator(MPI_COMM_WORLD).largest((MPI_Wtime() - start) * 1e3);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double neighbour_time(int repetitions, const halograd::Topology& topology, const std::vector<float>& model,
                      bool force_put) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto edges = static_cast<int>(topology.in_neighbours(rank).size());
  HaloWindow window(MPI_COMM_WORLD, topology, model.size(), {{2, force_put}});
  std::int64_t version = 0;
  const auto exchange = [&] {
    window.put(++version, HostVector<const float>(model.data(), model.size()));
    window.flush();
    for (int edge = 0; edge < edges; ++edge) window.wait(edge, version);
    for (int edge = 0; edge < edges; ++edge) window.release(edge, version);
  };
  exchange();
  return median_time(repetitions, exchange);
}

double allreduce_time(int repetitions, std::vector<float>& model) {
  return median_time(repetitions, [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, model.data(), static_cast<int>(model.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    halograd::wait_politely(request);
  });
}

void measure(std::size_t length, int repetitions, const std::string& kind) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  halograd::TopologyConfig config;
  config.kind = kind;
  const halograd::Topology topology = halograd::make_topology(config, ranks);

  std::vector<float> model(length, 1.0F), copy(length);
  const double by_copy = median_time(repetitions, [&] { std::copy(model.begin(), model.end(), copy.begin()); });
  const double by_store = neighbour_time(repetitions, topology, model, false);
  const double by_put = neighbour_time(repetitions, topology, model, true);
  const double by_allreduce = allreduce_time(repetitions, model);
  if (rank != 0) return;
  std::printf("%d ranks, %s, %.1f MB, median of %d\n", ranks, kind.c_str(), 4e-6 * static_cast<double>(length),
              repetitions);
  std::printf(
      "  copy in memory     %9.3f ms\n  neighbours, stores %9.3f ms\n  neighbours, puts   %9.3f ms\n"
      "  MPI_Iallreduce     %9.3f ms\n",
      by_copy, by_store, by_put, by_allreduce);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Kokkos::initialize(argc, argv);
  const std::size_t length = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 11'173'962;  // ResNet-18 for CIFAR-10
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 21;
  measure(length, repetitions, argc > 3 ? argv[3] : "ring");
  Kokkos::finalize();
  MPI_Finalize();
}
