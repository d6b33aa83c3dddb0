#include "window/progress_thread.hpp"

#include <ctime>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/wait.hpp"
#include "window/device_window.hpp"
#include "window/progress_hook.hpp"
#include "window/shared_segment.hpp"

namespace halograd {
namespace {

using namespace std::chrono_literals;

constexpr int probes_per_burst = 64;
// Over TCP, UCX takes some 20 to 70 us of the processor for a burst that finds nothing, else 100 to 1000.
constexpr double busy_factor = 4;
constexpr int longest_factor = 8;
constexpr int tries = 3;
constexpr auto computing = 40ms;             // by the rank that a put goes to, in a try
constexpr std::size_t trial_floats = 65536;  // in a put: more than MPIs send along with its announcement

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

bool progresses_by_itself(const Communicator& comm, bool force_put, HaloMemory memory) {
  if (comm.ranks() == 1) return true;
  // The last rank of another node, if there is one.
  const std::vector<int>& nodes = comm.node_of_rank();
  int target = comm.ranks() - 1;
  while (target > 0 && nodes[static_cast<std::size_t>(target)] == nodes[0]) --target;
  if (target == 0) target = comm.ranks() - 1;
  const int rank = comm.rank();
  constexpr std::size_t bytes = trial_floats * sizeof(float);
  SharedSegment segment(comm, bytes + sizeof(std::int64_t), force_put ? RmaReach::all : RmaReach::other_nodes);
  std::optional<DeviceWindow> device;
  if (memory == HaloMemory::device) device.emplace(comm, bytes);
  if (!segment.window() && !device) return true;  // stores
  const MPI_Win put_window = (device ? device->window() : segment.window()).handle();
  const std::vector<float> host_values(device ? 0 : trial_floats, 1);
  const Buffer<float> device_values("halograd::probe", device ? trial_floats : 0);
  const float* const values = device ? device_values.data() : host_values.data();
  const std::int64_t version = 1;
  int slow = 0;
  for (int i = 0; i < tries; ++i) {
    comm.barrier();
    if (rank == target) {
      MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, segment.comm().handle());
      const auto end = std::chrono::steady_clock::now() + computing;
      while (std::chrono::steady_clock::now() < end) continue;  // outside of MPI, as a rank that computes
    } else if (rank == 0) {
      MPI_Recv(nullptr, 0, MPI_BYTE, target, 0, segment.comm().handle(), MPI_STATUS_IGNORE);
      const PolitePause time;
      MPI_Put(values, trial_floats, MPI_FLOAT, target, 0, trial_floats, MPI_FLOAT, put_window);
      MPI_Win_flush(target, put_window);
      if (segment.window()) {
        // Open MPI copies a put straight into the memory of a process of this node, but sends it the accumulate.
        MPI_Accumulate(&version, 1, MPI_INT64_T, target, bytes, 1, MPI_INT64_T, MPI_REPLACE, segment.window().handle());
        MPI_Win_flush(target, segment.window().handle());
      }
      if (time.seconds() > 0.5 * std::chrono::duration<double>(computing).count()) ++slow;
    }
  }
  return comm.sum(slow) <= 1;  // a try may be slow because ranks share cores
}

std::chrono::microseconds BurstPause::after(double seconds) {
  shortest_ = std::min(shortest_, seconds);
  pause_ = seconds > busy_factor * shortest_ ? least_ : std::min(2 * pause_, longest_factor * least_);
  return pause_;
}

ProgressThread::ProgressThread(const Communicator& comm, int interval_us) : comm_(comm) {
  comm_.together(
      [&] { thread_ = std::jthread([this, interval_us](const std::stop_token& end) { run(interval_us, end); }); });
}

void ProgressThread::run(int interval_us, const std::stop_token& end) {
  BurstPause pause{std::chrono::microseconds(interval_us)};
  while (!end.stop_requested()) {
    for (int i = 0; i < probes_per_burst; ++i) {
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.handle(), &found, MPI_STATUS_IGNORE);
    }
    ProgressHook::run_all();
    const double before = seconds_.exchange(processor_seconds(), std::memory_order_relaxed);
    std::this_thread::sleep_for(pause.after(seconds_ - before));
  }
}

std::unique_ptr<ProgressThread> make_progress_thread(const CommConfig& config, const Communicator& comm, int nodes,
                                                     HaloMemory memory) {
  if (config.progress_us == 0) return nullptr;
  const bool stores_only = nodes == 1 && !config.force_put && memory == HaloMemory::host;
  const bool has_hooks = comm.largest(ProgressHook::any() ? 1 : 0) == 1;
  if (!has_hooks && (stores_only || progresses_by_itself(comm, config.force_put, memory))) return nullptr;
  return std::make_unique<ProgressThread>(comm, config.progress_us);
}

}  // namespace halograd
