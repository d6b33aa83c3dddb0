#pragma once

#include <memory>

#include "mpi/communicator.hpp"

namespace halograd {

/// Ends this rank where another rank of the job has died: MPI does not, and an MPI_Win_flush to a dead rank never
/// returns. A thread of its own, which calls no MPI, watches the processes of its node (pidfd_open, Linux 5.3; before,
/// by asking each second); the first rank of each node is linked by TCP to that of the first node, and a link that
/// breaks, or is silent for 15 s, is the death of that rank. Where a rank has died, every other one says so on stderr
/// (one per node) and ends by _exit within 20 s, however deep in MPI it is.
///
/// A launcher that ends the job by itself is given 2 s to do so.
class Watchdog {
 public:
  /// Collective. `status`: what the process ends with.
  Watchdog(const Communicator& comm, int status);
  /// Deaths are no news from here on.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Whether every node is linked to the first, on that one.
  [[nodiscard]] bool reaches_all_nodes() const;
  /// Collective: all ranks are about to end in order.
  void end();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace halograd
