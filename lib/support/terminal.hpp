#pragma once

namespace halograd {

/// Whether what this process prints on standard output comes to a terminal; for one that mpiexec or the like started:
/// whether what the launcher passes on does. A rank's own standard output does not tell: MPICH gives every rank a pipe,
/// Open MPI a terminal of its own making.
bool output_is_terminal();

}  // namespace halograd
