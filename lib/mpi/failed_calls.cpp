#include "mpi/failed_calls.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace halograd {
namespace {

constexpr auto watchdog_time = std::chrono::seconds(20);  // in which it ends this rank where another one has died
constexpr unsigned crash_seconds = 5;                     // the same where this one crashes for it

constexpr std::array crashes{SIGABRT, SIGSEGV, SIGBUS};
std::array<struct sigaction, crashes.size()> handlers_before;
std::atomic<bool> exit_is_expected{false};

void wait_and_abort(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0, rank = 0;
  MPI_Error_string(error, text.data(), &length);
  std::this_thread::sleep_for(watchdog_time);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "halograd: rank %d: a call of MPI failed: %s\n", rank, text.data());
  std::fflush(stderr);
  expect_exit();
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

// C-style variadic functions, as MPI asks for.
void of_comm(MPI_Comm* /*comm*/, int* error, ...) {  // NOLINT(cert-dcl50-cpp)
  wait_and_abort(*error);
}
void of_window(MPI_Win* /*window*/, int* error, ...) {  // NOLINT(cert-dcl50-cpp)
  wait_and_abort(*error);
}

void wait_for_watchdog() {
  for (unsigned left = crash_seconds; left > 0;) left = ::sleep(left);  // launchers signal that a rank has died
}

void wait_and_crash_again(int signal) {
  wait_for_watchdog();
  const auto number = std::find(crashes.begin(), crashes.end(), signal) - crashes.begin();
  ::sigaction(signal, &handlers_before[static_cast<std::size_t>(number)], nullptr);
  std::raise(signal);
}

void wait_unless_expected() {
  if (!exit_is_expected) wait_for_watchdog();
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

void outlast_deaths_by_crash() {
  struct sigaction handler {};
  handler.sa_handler = wait_and_crash_again;
  for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes[i], &handler, &handlers_before[i]);
  std::atexit(wait_unless_expected);
}

void expect_exit() {
  exit_is_expected = true;
}

}  // namespace halograd
