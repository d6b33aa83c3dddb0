#pragma once

#include "mpi/communicator.hpp"

namespace halograd {

/// Collective: a new communicator of the ranks that share memory with this one, in the same order. It is MPI's, unless
/// MPI puts each rank on a node of its own, as MPICH 5 does wherever it is built for UCX alone: then ranks of one host
/// that can open the same file in /dev/shm are together. MPIR_CVAR_NOLOCAL keeps them apart, MPIR_CVAR_NUM_CLIQUES
/// deals them to that many nodes, as in an MPICH that looks at these variables.
[[nodiscard]] MPI_Comm split_by_memory(const Communicator& comm);

}  // namespace halograd
