#pragma once

#include <cstddef>

#include "config/comm_config.hpp"
#include "support/table.hpp"

namespace halograd {

/// comm.device_windows.
struct DeviceWindows {
  const char* name;
  Fact<const char*> meaning;
  Fact<bool> forbidden;
  Fact<bool> required;
};
inline constexpr DeviceWindows device_windows[] = {
    {"auto", "where MPI supports it and a self-test passes", false, false},
    {"on", "always, or the run does not start", false, true},
    {"off", "never, halos go through host memory", true, false},
};

/// What carries halos between nodes.
enum class Carrier {
  put,   ///< MPI_Put into the reader's memory
  send,  ///< messages that the reader receives into its memory
};

/// How halos travel, through whichever window.
struct TransportOptions {
  int slots = 2;                                  ///< versions in flight on an edge, at least 2
  bool force_put = false;                         ///< as between nodes also where ranks share memory
  double report_seconds = 30;                     ///< a longer wait is told on stderr
  std::size_t put_floats = std::size_t{1} << 28;  ///< of one MPI_Put, whose counts are int
  InjectConfig inject{};                          ///< latency, and lost halos where none is waited for
  Carrier carrier = Carrier::put;                 ///< where writers wait for what they send
  Carrier free_carrier = Carrier::send;           ///< where they do not; a put takes MPI_Win_flush, which waits
};

inline TransportOptions transport_options(const CommConfig& config) {
  TransportOptions options{config.slots, config.force_put, config.report_seconds};
  options.inject = config.inject;
  return options;
}

}  // namespace halograd
