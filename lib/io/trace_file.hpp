#pragma once

#include <string>

#include "mpi/communicator.hpp"

namespace halograd {

/// Collective. One file in Chrome's trace-event format (chrome://tracing, ui.perfetto.dev) from the events of all
/// ranks, JSON objects separated by commas, which rank 0 takes from one rank after the other. `facts`: a JSON object,
/// of rank 0. Takes the place of `path` when it is complete. Throws CollectiveError where it cannot be written.
void write_trace(const Communicator& comm, const std::string& path, const std::string& events,
                 const std::string& facts);

}  // namespace halograd
