// The driver of tests whose ranks share cores: a library that is loaded before MPI. yielding_progress_mpi_test.cpp is
// its test.
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#include <atomic>

/// How often the core was given away.
extern "C" {
std::atomic<long> halograd_test_yields{0};
}

/// Preloaded into the programs of tests, whose ranks share cores. MPICH's blocking calls spin on this function of UCX;
/// here it gives the core to another rank where nothing has come, and sleeps where nothing comes for a while. Returns
/// the number of events.
extern "C" unsigned ucp_worker_progress(void* worker) {
  static const auto progress = reinterpret_cast<unsigned (*)(void*)>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  thread_local int empty = 0;
  const unsigned events = progress(worker);
  if (events != 0) {
    empty = 0;
  } else {
    ++halograd_test_yields;
    constexpr timespec while_others_compute{0, 50000};
    if (++empty < 10) {
      sched_yield();
    } else {
      nanosleep(&while_others_compute, nullptr);
    }
  }
  return events;
}
