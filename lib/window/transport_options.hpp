#pragma once

#include <cstddef>

#include "config/comm_config.hpp"

namespace halograd {

/// How halos travel, through whichever window.
struct TransportOptions {
  int slots = 2;                                  ///< versions in flight on an edge, at least 2
  bool force_put = false;                         ///< MPI_Put also between ranks that share memory
  double report_seconds = 30;                     ///< a longer wait is told on stderr
  std::size_t put_floats = std::size_t{1} << 28;  ///< of one MPI_Put, whose counts are int
  InjectConfig inject{};                          ///< latency, and lost halos where none is waited for
};

inline TransportOptions transport_options(const CommConfig& config) {
  TransportOptions options{config.slots, config.force_put, config.report_seconds};
  options.inject = config.inject;
  return options;
}

}  // namespace halograd
