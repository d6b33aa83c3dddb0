#pragma once

#include <string>

#include "config/comm_config.hpp"
#include "window/network_speed.hpp"

namespace halograd {

/// How the halos of a training travel between nodes.
struct TransportChoice {
  std::string transport;  ///< the comm.transport that holds: what was asked for, or what takes its place
  std::string reason{};   ///< why something else takes its place
  int piece_kb = 0;       ///< the comm.piece_kb that holds
  NetworkTrial trial{};
};

/// What follows from a trial for halos that lie in host memory. Under comm.transport = "auto" all of them travel by
/// messages where MPI_Put does not work, or reaches less than half of the messages' rate on some link; under
/// comm.piece_kb = 0 they go in pieces where some link is slow (window/transport_options.hpp). Throws Error
/// where comm.transport = "put" and it does not work, and where messages are needed and comm.progress_us = 0.
TransportChoice choose_transport(const CommConfig& config, NetworkTrial trial);

}  // namespace halograd
