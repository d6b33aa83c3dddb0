#pragma once

#include <mpi.h>

#include <cstddef>

namespace halograd {

/// Collective. A window over `bytes` of memory of each rank, with displacements in bytes, for MPI_Put and
/// MPI_Accumulate from all ranks of `comm`, whose error handler is changed meanwhile. Throws CollectiveError where MPI
/// makes none, or not one of the unified memory model.
MPI_Win create_window(MPI_Comm comm, void* memory, std::size_t bytes);

/// Collective. Throws CollectiveError unless the window is of the unified memory model on all ranks.
void require_unified(MPI_Comm comm, MPI_Win window);

}  // namespace halograd
