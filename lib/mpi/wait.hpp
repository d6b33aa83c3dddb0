#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <string>

namespace halograd {

/// The pauses of a waiting loop: none at first, then yields of the core for 0.1 ms, then sleeps of 20 to
/// 100 microseconds. Spinning alone, as MPI_Wait does, starves the other ranks where there are more ranks than cores.
class PolitePause {
 public:
  /// Between two probes.
  void operator()();
  /// Since construction.
  [[nodiscard]] double seconds() const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int probes_ = 0;
  long sleep_nanoseconds_ = 20'000;
};

/// Waits for a request without holding the core. Returns the seconds waited.
double wait_politely(MPI_Request& request);

/// MPI_Barrier, MPI_Comm_dup and MPI_Allreduce in place (sum of doubles), waited for politely.
void barrier(MPI_Comm comm);
[[nodiscard]] MPI_Comm duplicate(MPI_Comm comm);
void sum_over_ranks(MPI_Comm comm, double* values, int count);

/// Collective. Throws CollectiveError on all ranks where any rank comes with a message that is not empty: that of the
/// lowest such rank. A rank that threw alone would leave the others waiting for it.
void fail_together(MPI_Comm comm, const std::string& message);

/// Collective. Runs `action` on each rank and throws CollectiveError on all of them where it threw on any.
template <class Action>
void together(MPI_Comm comm, Action&& action) {
  std::string message;
  try {
    action();
  } catch (const std::exception& exception) {
    message = exception.what();
    if (message.empty()) message = "unknown error";
  }
  fail_together(comm, message);
}

}  // namespace halograd
