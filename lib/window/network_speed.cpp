#include "window/network_speed.hpp"

#include <algorithm>
#include <vector>

#include "kernels/error.hpp"
#include "window/halo_window.hpp"

namespace halograd {
namespace {

constexpr int round_trips = 400;
constexpr int exchanges = 9;
constexpr std::size_t floats = std::size_t{1} << 22U;  // 16 MiB

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double half_round_trip(const Communicator& comm) {
  const MPI_Comm pair = comm.handle();
  const int rank = comm.rank();
  std::vector<double> times;
  double number = 0;
  for (int i = 0; i < round_trips; ++i) {
    const double start = MPI_Wtime();
    if (rank == 0) MPI_Send(&number, 1, MPI_DOUBLE, 1, 0, pair);
    MPI_Recv(&number, 1, MPI_DOUBLE, 1 - rank, 0, pair, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&number, 1, MPI_DOUBLE, 0, 0, pair);
    times.push_back((MPI_Wtime() - start) / 2);
  }
  return median(times);
}

double put_bandwidth(const Communicator& pair) {
  TopologyConfig config;
  HaloWindow::Options options;
  options.force_put = true;
  HaloWindow window(pair, make_topology(config, 2), floats, options);
  const std::vector<float> weights(floats, 1.0F);
  std::vector<double> times;
  for (std::int64_t version = 1; version <= exchanges; ++version) {
    pair.barrier();
    const double start = MPI_Wtime();
    window.put(version, HostVector<const float>(weights.data(), weights.size()));
    window.flush();
    window.wait(0, version);
    window.release(0, version);
    times.push_back(MPI_Wtime() - start);
  }
  return sizeof(float) * static_cast<double>(floats) / median(times);
}

}  // namespace

NetworkSpeed measure_network_speed(const Communicator& comm) {
  HALOGRAD_REQUIRE(comm.ranks() >= 2,
                   "the speed of the network is measured between two ranks, but there is only one rank");
  const bool at_an_end = comm.rank() == 0 || comm.rank() == comm.ranks() - 1;
  const OwnedComm pair = comm.split(at_an_end ? 0 : 1);
  NetworkSpeed speed;
  if (at_an_end) {
    speed.latency = half_round_trip(pair);
    speed.bandwidth = put_bandwidth(pair);
  }
  return comm.broadcast(speed);
}

}  // namespace halograd
