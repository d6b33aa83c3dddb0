#pragma once

#include <mpi.h>

#include <exception>
#include <string>

#include "kernels/error.hpp"

namespace halograd {

/// Waits without holding the core, which other ranks may need to get here: MPICH spins in its blocking calls.
void await(MPI_Request& request);

/// Collective. Throws Error on all ranks where any rank comes with a message, with that of the lowest such rank.
void agree(MPI_Comm comm, const std::string& error);

/// Collective. Runs `action` on each rank and throws Error on all of them where it threw on any: no rank is left
/// waiting in a collective call that another gave up on.
template <class Action>
void together(MPI_Comm comm, Action&& action) {
  std::string error;
  try {
    action();
  } catch (const std::exception& exception) {
    error = exception.what();
    if (error.empty()) error = "unknown error";
  }
  agree(comm, error);
}

}  // namespace halograd
