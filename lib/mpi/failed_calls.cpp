#include "mpi/failed_calls.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace halograd {
namespace {

constexpr auto watchdog_time = std::chrono::seconds(20);  // in which it ends this rank where another one has died
constexpr unsigned abort_seconds = 5;                     // the same where the other one was on this host

void wait_and_abort(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0, rank = 0;
  MPI_Error_string(error, text.data(), &length);
  std::this_thread::sleep_for(watchdog_time);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "halograd: rank %d: a call of MPI failed: %s\n", rank, text.data());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

// C-style variadic functions, as MPI asks for.
void of_comm(MPI_Comm* /*comm*/, int* error, ...) {  // NOLINT(cert-dcl50-cpp)
  wait_and_abort(*error);
}
void of_window(MPI_Win* /*window*/, int* error, ...) {  // NOLINT(cert-dcl50-cpp)
  wait_and_abort(*error);
}

void wait_and_abort_again(int signal) {
  for (unsigned left = abort_seconds; left > 0;) left = ::sleep(left);  // launchers signal that a rank has died
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void outlast_deaths(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(of_comm, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Errhandler_free(&handler);
}

void outlast_deaths_by_window(MPI_Win window) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Win_create_errhandler(of_window, &handler);
  MPI_Win_set_errhandler(window, handler);
  MPI_Errhandler_free(&handler);
}

void outlast_deaths_by_abort() {
  std::signal(SIGABRT, wait_and_abort_again);
}

}  // namespace halograd
