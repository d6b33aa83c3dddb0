#pragma once

#include <string>

#include "mpi/communicator.hpp"

namespace halograd {

/// MPI, with threads, for the life of this object.
class MpiSession {
 public:
  /// Collective over all ranks of the job. Throws Error where the MPI does not grant MPI_THREAD_MULTIPLE.
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// All ranks of the job. What it says of nodes is known from the start.
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// Ends all ranks with this status.
  [[noreturn]] static void abort(int status);
  /// Name and version of the library, in one line; needs no session.
  [[nodiscard]] static std::string library_version();

 private:
  Communicator comm_;
};

}  // namespace halograd
