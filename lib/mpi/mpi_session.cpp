#include "mpi/mpi_session.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "kernels/error.hpp"
#include "mpi/failed_calls.hpp"

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
  return MPI_COMM_WORLD;
}

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) : comm_(started(argc, argv)) {
  static_cast<void>(comm_.node());  // collective the first time, which is now
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

void MpiSession::abort(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

std::string MpiSession::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data());
  version = version.substr(0, version.find('\n'));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version;
}

}  // namespace halograd
