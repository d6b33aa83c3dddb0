#pragma once

#include <cstdlib>
#include <string>

#include "mpi/communicator.hpp"

namespace halograd {

/// MPI, with threads, for the life of this object.
class MpiSession {
 public:
  /// Collective over all ranks of the job. Throws Error where the MPI does not grant MPI_THREAD_MULTIPLE.
  MpiSession(int& argc, char**& argv);
  /// Collective; or one rank must call abort(). All that the process has to do must be done, and its files closed:
  /// where MPI_Finalize is known to hang (MPICH before 4.2 on UCX), or takes longer than a minute, the process ends
  /// here, with the status of end_with().
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// All ranks of the job. What it says of nodes is known from the start.
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// What the process is about to end with; 0 unless said.
  void end_with(int status) { status_ = status; }
  /// Ends all ranks with this status.
  [[noreturn]] static void abort(int status);
  /// The same after this rank has said on stderr what it alone has met.
  [[noreturn]] static void abort(const std::string& message, int status = EXIT_FAILURE);
  /// Name and version of the library, in one line; needs no session.
  [[nodiscard]] static std::string library_version();

 private:
  Communicator comm_;
  int status_ = 0;
};

}  // namespace halograd
