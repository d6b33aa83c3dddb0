#include "app/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "app/exit_status.hpp"
#include "hdf5/files.hpp"
#include "kernels/accelerator.hpp"
#include "kernels/compat.hpp"
#include "kernels/cores.hpp"
#include "kernels/error.hpp"
#include "kernels/subnormals.hpp"
#include "kernels/types.hpp"
#include "mpi/placement.hpp"
#include "support/job_notes.hpp"
#include "version.hpp"

namespace halograd {
namespace {

constexpr long most_threads_per_core = 16;  // far more than anyone gains by

int positive_number(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::max(0, std::atoi(text));
}

/// Cores that this node's ranks may use together, over its ranks: right for ranks that a launcher bound to cores of
/// their own as well as for ranks that share all.
int cores_per_rank(const Communicator& comm) {
  const Cores mine = usable_cores();
  Cores all = mine;
  for (const Cores& others : comm.node().gather(mine)) CPU_OR(&all.set, &all.set, &others.set);
  return std::clamp(all.count() / comm.node_ranks(), 1, std::max(1, mine.count()));
}

}  // namespace

Session::Session(int argc, char** argv) : argc_(argc), argv_(argv) {}

Session::~Session() {
  if (kokkos_) Kokkos::finalize();
  if (mpi_) mpi_->end_with(status_);
}

const Communicator& Session::start_mpi() {
  if (!mpi_) mpi_.emplace(argc_, argv_);
  return mpi_->comm();
}

void Session::start_kokkos(int threads, int ranks_per_device) {
  const Communicator& comm = mpi_->comm();
  if (threads == 0) threads = positive_number("OMP_NUM_THREADS");
  if (threads == 0) threads = positive_number("SLURM_CPUS_PER_TASK");
  if (threads == 0) threads = cores_per_rank(comm);
  // OpenMP ends in a segmentation fault where the system cannot start as many.
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int device = -1;
  comm.together([&] {
    HALOGRAD_REQUIRE(threads <= most_threads_per_core * cores, "training.threads (or OMP_NUM_THREADS) is ", threads,
                     ", expected at most ", most_threads_per_core * cores, " on a node of ", cores, " cores");
    if (runs_on_host) return;
    device = comm.node_rank() % accelerators();
    require_code_for(device);
  });
  flush_subnormals();  // before Kokkos starts its threads
  // Ranks that share cores must not be pinned to the same one; whoever wants pinning says so.
  setenv("OMP_PROC_BIND", "false", 0);
  halograd::start_kokkos(threads, device);
  kokkos_ = true;
  const std::vector<RankPlace> places = gather_places(comm, device);
  comm.together([&] { require_devices(places, ranks_per_device); });
}

void Session::fail(const std::exception& error) {
  const Foreign foreign = foreign_of(error);
  end_with(foreign == Foreign::no_rank ? EXIT_FAILURE : requeue_status);
  const int rank = mpi_ ? mpi_->comm().rank() : launched_rank();
  const auto* const collective = dynamic_cast<const CollectiveError*>(&error);
  const bool of_all = collective != nullptr && collective->of_all_ranks();
  const bool alone = mpi_ && mpi_->comm().ranks() > 1 && !of_all;
  const bool speaks = rank == 0 || alone;
  if (foreign == Foreign::this_rank && (speaks || collective != nullptr)) {
    note_for_job("died " + std::to_string(rank) + " " + node_name());
  }
  if (!speaks) return;
  if (foreign == Foreign::no_rank) note_for_job("error");
  if (!alone) {
    std::fprintf(stderr, "halograd: %s\n", message_of(error).c_str());
    return;
  }
  MpiSession::abort(message_of(error), status_);
}

int launched_rank() {
  for (const char* variable : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (std::getenv(variable) != nullptr) return positive_number(variable);
  }
  return 0;
}

std::string versions() {
  return std::string("halograd ") + HALOGRAD_VERSION + " (" + HALOGRAD_GIT_REVISION + "), Kokkos " + kokkos_version() +
         " (" + ExecutionSpace::name() + "), " + MpiSession::library_version() + ", HDF5 " + hdf5_version();
}

}  // namespace halograd
