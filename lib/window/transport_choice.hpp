#pragma once

#include <string>

#include "config/comm_config.hpp"
#include "mpi/communicator.hpp"
#include "window/network_speed.hpp"

namespace halograd {

/// How the halos of a training travel between nodes.
struct TransportChoice {
  std::string transport;  ///< for CommConfig::transport: what was asked for, or what takes its place
  std::string reason{};   ///< why something else takes its place
  NetworkTrial trial{};
};

/// Collective. Tries the network out where there are several nodes. Under comm.transport = "auto" all halos travel by
/// messages where MPI_Put does not work, or reaches less than half of their rate on some link. Throws CollectiveError
/// where comm.transport = "put" and it does not work.
TransportChoice choose_transport(const CommConfig& config, const Communicator& comm);

}  // namespace halograd
