#include "app/session.hpp"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "hdf5/files.hpp"
#include "kernels/accelerator.hpp"
#include "kernels/compat.hpp"
#include "kernels/error.hpp"
#include "kernels/subnormals.hpp"
#include "kernels/types.hpp"
#include "mpi/node_comm.hpp"
#include "mpi/placement.hpp"
#include "mpi/wait.hpp"
#include "version.hpp"

namespace halograd {
namespace {

constexpr long most_threads_a_core = 16;  // far more than anyone gains by

int positive_number(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::max(0, std::atoi(text));
}

/// Cores that this node's ranks may use together, over its ranks: right for ranks that a launcher bound to cores of
/// their own as well as for ranks that share all.
int cores_a_rank(const Communicator& comm) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return 1;
  cpu_set_t all = mine;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &all, static_cast<int>(sizeof(all)), MPI_BYTE, MPI_BOR, node_comm(comm.handle()),
                 &request);
  wait_politely(request);
  return std::clamp(CPU_COUNT(&all) / comm.node_ranks(), 1, std::max(1, CPU_COUNT(&mine)));
}

}  // namespace

Session::Session(int argc, char** argv) : argc_(argc), argv_(argv) {}

Session::~Session() {
  if (kokkos_) Kokkos::finalize();
  if (comm_ == nullptr) return;
  comm_.reset();
  MPI_Finalize();
}

const Communicator& Session::start_mpi() {
  if (comm_ != nullptr) return *comm_;
  int granted = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc_, &argv_, MPI_THREAD_MULTIPLE, &granted);
  comm_ = std::make_unique<Communicator>(MPI_COMM_WORLD);
  HALOGRAD_REQUIRE(granted == MPI_THREAD_MULTIPLE, "this MPI does not grant MPI_THREAD_MULTIPLE, which halograd needs");
  return *comm_;
}

void Session::start_kokkos(int threads, int ranks_per_device) {
  if (threads == 0) threads = positive_number("OMP_NUM_THREADS");
  if (threads == 0) threads = positive_number("SLURM_CPUS_PER_TASK");
  if (threads == 0) threads = cores_a_rank(*comm_);
  // OpenMP ends in a segmentation fault where the system cannot start as many.
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int device = -1;
  comm_->together([&] {
    HALOGRAD_REQUIRE(threads <= most_threads_a_core * cores, "training.threads (or OMP_NUM_THREADS) is ", threads,
                     ", expected at most ", most_threads_a_core * cores, " on a node of ", cores, " cores");
    if (runs_on_host) return;
    device = comm_->node_rank() % accelerators();
    require_code_for(device);
  });
  flush_subnormals();  // before Kokkos starts its threads
  // Ranks that share cores must not be pinned to the same one; whoever wants pinning says so.
  setenv("OMP_PROC_BIND", "false", 0);
  halograd::start_kokkos(threads, device);
  kokkos_ = true;
  const std::vector<RankPlace> places = gather_places(*comm_, device);
  comm_->together([&] { require_devices(places, ranks_per_device); });
}

int Session::fail(const std::string& message, bool on_all_ranks) {
  if (comm_ == nullptr) {
    if (launched_rank() == 0) std::fprintf(stderr, "halograd: %s\n", message.c_str());
    return EXIT_FAILURE;
  }
  if (on_all_ranks || comm_->ranks() == 1) {
    if (comm_->rank() == 0) std::fprintf(stderr, "halograd: %s\n", message.c_str());
    return EXIT_FAILURE;
  }
  std::fprintf(stderr, "halograd: rank %d: %s\n", comm_->rank(), message.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  return EXIT_FAILURE;
}

int launched_rank() {
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (std::getenv(variable) != nullptr) return positive_number(variable);
  }
  return 0;
}

std::string versions() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string mpi(text.data());
  mpi = mpi.substr(0, mpi.find('\n'));
  std::replace(mpi.begin(), mpi.end(), '\t', ' ');
  return std::string("halograd ") + HALOGRAD_VERSION + " (" + HALOGRAD_GIT_REVISION + "), Kokkos " + kokkos_version() +
         " (" + ExecutionSpace::name() + "), " + mpi + ", HDF5 " + hdf5_version();
}

}  // namespace halograd
