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
};

inline TransportOptions transport_options(const CommConfig& config) {
  return {config.slots, config.force_put, config.report_seconds};
}

}  // namespace halograd
