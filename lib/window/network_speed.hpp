#pragma once

#include "mpi/communicator.hpp"

namespace halograd {

/// The two numbers of the latency-bandwidth model.
struct NetworkSpeed {
  double latency = 0;    ///< seconds: half of a round trip of one number
  double bandwidth = 0;  ///< bytes per second and direction, of MPI_Put both ways through a halo window
};

/// Collective, on two ranks or more; takes about a second. Between the first and the last rank; the same on all.
NetworkSpeed measure_network_speed(const Communicator& comm);

}  // namespace halograd
