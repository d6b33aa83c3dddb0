#pragma once

#include <exception>
#include <optional>
#include <string>

#include "mpi/mpi_session.hpp"

namespace halograd {

/// MPI and Kokkos for the life of the program: started when a subcommand needs them, so that those that need no MPI
/// launch run on a login node, and ended in order, or aborted.
class Session {
 public:
  Session(int argc, char** argv);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// MPI with threads. Throws Error where the MPI does not grant MPI_THREAD_MULTIPLE.
  const Communicator& start_mpi();
  /// Kokkos with `threads` per rank; 0: OMP_NUM_THREADS, SLURM_CPUS_PER_TASK, or this node's usable cores over its
  /// ranks. On an accelerator where the build is for those: ranks of a node take them in turn. After start_mpi; throws
  /// CollectiveError where there are too many threads for the cores, or more than `ranks_per_device` ranks for one.
  void start_kokkos(int threads, int ranks_per_device = 1);

  /// What the program is to end with where nothing goes wrong from here on; 0 unless said.
  void end_with(int status) { status_ = status; }
  [[nodiscard]] int status() const { return status_; }

  /// Says what went wrong, once where all ranks agree on it (CollectiveError). The program is to end with status 1
  /// then, or with requeue_status where that is not an Error of this program; where the ranks do not agree, all of them
  /// end here.
  void fail(const std::exception& error);

 private:
  int argc_;
  char** argv_;
  int status_ = 0;
  bool kokkos_ = false;
  std::optional<MpiSession> mpi_;
};

/// The rank that the launcher gave this process, before MPI is started; 0 without a launcher.
int launched_rank();

/// The versions of halograd, Kokkos, MPI and HDF5, in one line.
std::string versions();

}  // namespace halograd
