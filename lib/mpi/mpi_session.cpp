#include "mpi/mpi_session.hpp"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "kernels/error.hpp"
#include "mpi/failed_calls.hpp"
#include "mpi/launcher.hpp"

namespace halograd {
namespace {

MPI_Comm started(int& argc, char**& argv) {
  int granted = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  if (granted != MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    fail("this MPI does not grant MPI_THREAD_MULTIPLE, which halograd needs");
  }
  outlast_deaths(MPI_COMM_WORLD);
  outlast_deaths_by_crash();
  return MPI_COMM_WORLD;
}

std::string library_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.data();
}

/// MPICH before 4.2 on UCX closes its connections in MPI_Finalize and then waits in the launcher's barrier, where it
/// serves nobody: a rank whose connection is not closed yet waits for one in the barrier, which waits for it
/// (pmodels/mpich pull request 6596). Over TCP that is about every second run, also between ranks of one host.
bool may_hang_in_finalize() {
  const std::string text = library_text();
  int major = 0, minor = 0;
  return text.find("ch4:ucx") != std::string::npos &&
         std::sscanf(text.c_str(), "MPICH Version: %d.%d", &major, &minor) == 2 &&
         (major < 4 || (major == 4 && minor < 2));
}

constexpr unsigned finalize_seconds = 60;
volatile std::sig_atomic_t status_at_the_limit = 0;

void end_at_the_limit(int /*signal*/) {
  ::_exit(status_at_the_limit);
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) : comm_(started(argc, argv)) {
  static_cast<void>(comm_.node());  // collective the first time, which is now
}

MpiSession::~MpiSession() {
  expect_exit();
  std::fflush(nullptr);
  comm_.barrier();  // what follows takes as long as MPI does, not as long as the slowest rank
  // A run that is finished must not keep its nodes until the job's time limit.
  status_at_the_limit = status_;
  std::signal(SIGALRM, end_at_the_limit);
  ::alarm(finalize_seconds);
  const auto progress = [this] {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.handle(), &found, MPI_STATUS_IGNORE);
  };
  if (may_hang_in_finalize() && leave_launcher(progress)) ::_exit(status_);
  MPI_Finalize();
  ::alarm(0);
}

void MpiSession::abort(int status) {
  expect_exit();
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

void MpiSession::abort(const std::string& message, int status) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "halograd: rank %d: %s\n", rank, message.c_str());
  std::fflush(stderr);
  abort(status);
}

std::string MpiSession::library_version() {
  std::istringstream text(library_text());
  std::string line, version, word;
  std::getline(text, line);
  for (std::istringstream words(line); words >> word;) version += (version.empty() ? "" : " ") + word;
  return version;
}

}  // namespace halograd
