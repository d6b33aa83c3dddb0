#include "mpi/wait.hpp"

#include <sched.h>

#include <algorithm>
#include <ctime>

namespace halograd {

namespace {

constexpr int free_probes = 300;
// A yield costs next to nothing where nobody else wants the core, and a message in flight seldom takes longer than
// this. Where the core is wanted, a yield lasts as long as the others please, and a sleeper is woken sooner.
constexpr double yield_seconds = 0.1e-3;
constexpr long longest_sleep = 100'000;  // nanoseconds

thread_local double waited = 0;

}  // namespace

void PolitePause::operator()() {
  if (probes_ < free_probes) {
    ++probes_;
    return;
  }
  if (seconds() < yield_seconds) {
    sched_yield();
    return;
  }
  const timespec sleep{0, sleep_nanoseconds_};
  nanosleep(&sleep, nullptr);
  sleep_nanoseconds_ = std::min(2 * sleep_nanoseconds_, longest_sleep);
}

double PolitePause::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

double wait_politely(MPI_Request& request) {
  PolitePause pause;
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    pause();
  }
  waited += pause.seconds();
  return pause.seconds();
}

double seconds_waited() {
  return waited;
}

}  // namespace halograd
