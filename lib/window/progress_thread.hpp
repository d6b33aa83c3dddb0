#pragma once

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>

#include "config/comm_config.hpp"
#include "mpi/communicator.hpp"
#include "window/halo_values.hpp"

namespace halograd {

/// Collective. Whether a put, and the counter that announces it, end while the rank that they go to computes: tried out
/// from rank 0 to the last rank.
/// Where it does not, as on most MPIs without a network that writes memory by itself, the halos of a step arrive when
/// their reader next calls MPI. `force_put` as in HaloTransport; `memory`: what the put is from and to.
bool progresses_by_itself(const Communicator& comm, bool force_put, HaloMemory memory = HaloMemory::host);

/// How long to sleep between bursts of looks into MPI: `least` after one that found something to do, then twice as long
/// after each that did not, up to 8 times as long. Where there was something to do, a burst takes many times the
/// processor time of the shortest one.
class BurstPause {
 public:
  explicit BurstPause(std::chrono::microseconds least) : least_(least), pause_(least) {}
  /// `seconds`: processor time of the last burst.
  std::chrono::microseconds after(double seconds);

 private:
  std::chrono::microseconds least_, pause_;
  double shortest_ = std::numeric_limits<double>::infinity();
};

/// Keeps MPI going while a rank computes, and runs the hooks (window/progress_hook.hpp): looks into it in bursts, which
/// cost little and yet let a put of many pieces through (docs/algorithms.md, "Progress"). Needs MPI_THREAD_MULTIPLE.
class ProgressThread {
 public:
  /// Collective: duplicates `comm`. `interval_us`: the least pause between two bursts. Throws CollectiveError where a
  /// rank has no room for a thread. Its end is collective too, except while an exception unwinds this rank's stack.
  ProgressThread(const Communicator& comm, int interval_us);
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Processor time that it has taken so far, in seconds.
  [[nodiscard]] double seconds() const { return seconds_.load(std::memory_order_relaxed); }

 private:
  void run(int interval_us, const std::stop_token& end);

  OwnedComm comm_;
  std::atomic<double> seconds_ = 0;
  std::jthread thread_;
};

/// Collective: a thread where comm.progress_us allows one and either there are hooks or some ranks are reached by MPI
/// only, and it does not progress by itself; otherwise none. `nodes`: of the communicator; `memory`: of the halos.
std::unique_ptr<ProgressThread> make_progress_thread(const CommConfig& config, const Communicator& comm, int nodes,
                                                     HaloMemory memory = HaloMemory::host);

}  // namespace halograd
