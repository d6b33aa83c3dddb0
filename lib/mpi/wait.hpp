#pragma once

#include <mpi.h>

#include <chrono>

#include "mpi/unwinding.hpp"

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

/// Waits until `is_done`, which is called again and again, without holding the core. Calls `report` with the seconds,
/// once, when there are more than `report_seconds` of them; where a call of MPI within `is_done` has waited, after it.
/// Returns the seconds waited.
template <class IsDone, class Report>
double wait_and_report(const IsDone& is_done, double report_seconds, const Report& report) {
  PolitePause pause;
  bool reported = false;
  const auto report_once = [&] {
    if (reported || pause.seconds() < report_seconds) return;
    reported = true;
    report(pause.seconds());
  };
  for (; !is_done(); pause()) report_once();
  report_once();
  return pause.seconds();
}

/// Waits for a request without holding the core. Returns the seconds waited.
double wait_politely(MPI_Request& request);
/// Seconds that this thread has spent in wait_politely(), which all collectives of Communicator wait by.
double seconds_waited();

/// A request that is waited for at the end of this object's life; but while an exception unwinds this rank alone, it is
/// left to the abort that follows. What MPI reads or writes for it must live longer.
class OwnedRequest {
 public:
  OwnedRequest() = default;
  ~OwnedRequest() {
    if (!unwinding_.now()) wait_politely(request_);
  }
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  /// For the call of MPI that starts an operation; the last one must be complete.
  [[nodiscard]] MPI_Request* start() { return &request_; }
  [[nodiscard]] bool is_under_way() const { return request_ != MPI_REQUEST_NULL; }
  /// Moves the operation on. Whether it is complete, or there is none.
  bool test() {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  /// Returns the seconds waited.
  double wait() { return wait_politely(request_); }

 private:
  Unwinding unwinding_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace halograd
