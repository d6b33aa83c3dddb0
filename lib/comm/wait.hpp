#pragma once

#include <mpi.h>

namespace halograd {

/// Waits for a request without holding the core: MPICH spins in MPI_Wait, which starves the ranks that share the
/// core when there are more ranks than cores. Probes briefly, then yields, then sleeps a few microseconds at a time.
/// Returns the seconds waited.
double wait_politely(MPI_Request& request);

/// MPI_Barrier and MPI_Allreduce in place (sum of doubles), waited for politely.
void barrier(MPI_Comm comm);
void sum_over_ranks(MPI_Comm comm, double* values, int count);

}  // namespace halograd
