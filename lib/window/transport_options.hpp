#pragma once

#include <cstddef>

#include "config/comm_config.hpp"
#include "mpi/most_in_a_call.hpp"
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

/// comm.transport.
struct Transport {
  const char* name;
  Fact<const char*> meaning;
  Fact<Carrier> carrier;       ///< for halos whose writers wait for what they send
  Fact<Carrier> free_carrier;  ///< for the others
  Fact<bool> by_trial;         ///< a self-test may choose another row
};
inline constexpr Transport transports[] = {
    {"auto", "put, or send where writers wait for nobody or a self-test finds put less than half as fast", Carrier::put,
     Carrier::send, true},
    {"put", "by MPI_Put", Carrier::put, Carrier::put, false},
    {"send", "by messages that a thread of the reader receives", Carrier::send, Carrier::send, false},
};
/// The row by which all halos travel by messages.
constexpr const Transport& sending_transport() {
  return transports[2];
}
/// Why messages are refused where nobody would receive them.
constexpr const char* no_receiver = "messages need the thread that comm.progress_us = 0 forbids";

/// Below so many 10^6 bytes per second a link is slow: an answer waits long behind a large message, so that an MPI
/// which asks before it sends one (UCX over TCP) uses such a link one way at a time.
constexpr int slow_link_mb = 30;
/// comm.piece_kb = 0 over slow links: what UCX puts and sends without asking.
constexpr int piece_kb_of_slow_links = 16;

/// How halos travel, through whichever window.
struct TransportOptions {
  int slots = 2;                            ///< versions in flight on an edge, at least 2
  bool force_put = false;                   ///< ranks that share memory exchange as between nodes
  double report_seconds = 30;               ///< a longer wait is reported on stderr
  std::size_t put_floats = most_in_a_call;  ///< values of one MPI_Put or message, at most
  InjectConfig inject{};                    ///< latency, bandwidth, and losses where no halo is waited for
  Carrier carrier = Carrier::put;           ///< where writers wait for what they send
  Carrier free_carrier = Carrier::send;     ///< where they do not: a put takes MPI_Win_flush, which waits
};

/// Throws Error for an unknown comm.transport.
inline TransportOptions transport_options(const CommConfig& config) {
  TransportOptions options{config.slots, config.force_put, config.report_seconds};
  options.inject = config.inject;
  if (config.piece_kb > 0) options.put_floats = static_cast<std::size_t>(config.piece_kb) * 1024 / sizeof(float);
  const Transport& transport = row_of(transports, config.transport, "comm.transport");
  options.carrier = transport.carrier;
  options.free_carrier = transport.free_carrier;
  return options;
}

}  // namespace halograd
