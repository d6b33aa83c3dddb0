#pragma once

#include <functional>

namespace halograd {

/// Takes leave of the launcher in the place of MPI_Finalize: collective over all ranks of the job, for an MPI whose
/// MPI_Finalize cannot be trusted to return. It speaks PMI 1, as MPICH's own client does with Hydra and with Slurm
/// (srun --mpi=pmi2). `progress` is called while ranks wait for each other, and serves the messages of those that are
/// still busy; MPI must not be called afterwards. Returns false at once where this process has no such launcher.
bool leave_launcher(const std::function<void()>& progress);

}  // namespace halograd
