#pragma once

#include <memory>
#include <string>

#include "mpi/communicator.hpp"

namespace halograd {

class RankClock;

/// A trace of all ranks from construction to write().
class Tracing {
 public:
  /// Collective: the clocks of the nodes are aligned here.
  explicit Tracing(const Communicator& comm);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  /// Collective. Ends the trace. Throws CollectiveError where the file cannot be written.
  void write(const std::string& path);

 private:
  const Communicator& comm_;
  std::unique_ptr<RankClock> clock_;
};

}  // namespace halograd
