#include "mpi/wait.hpp"

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "kernels/error.hpp"

namespace halograd {

namespace {

constexpr int free_probes = 300;
// A yield costs next to nothing where nobody else wants the core, and a message in flight seldom takes longer than
// this. Where the core is wanted, a yield lasts as long as the others please, and a sleeper is woken sooner.
constexpr double yield_seconds = 0.1e-3;
constexpr long longest_sleep = 100'000;  // nanoseconds

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
    if (done != 0) return pause.seconds();
    pause();
  }
}

void barrier(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm, &request);
  wait_politely(request);
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(comm, &copy, &request);
  wait_politely(request);
  return copy;
}

void sum_over_ranks(MPI_Comm comm, double* values, int count) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, comm, &request);
  wait_politely(request);
}

void fail_together(MPI_Comm comm, const std::string& message) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  int speaker = message.empty() ? ranks : rank;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, comm, &request);
  wait_politely(request);
  if (speaker == ranks) return;

  int length = static_cast<int>(message.size());
  MPI_Ibcast(&length, 1, MPI_INT, speaker, comm, &request);
  wait_politely(request);
  std::string text = message;
  text.resize(length);
  MPI_Ibcast(text.data(), length, MPI_CHAR, speaker, comm, &request);
  wait_politely(request);
  throw CollectiveError(text);
}

}  // namespace halograd
