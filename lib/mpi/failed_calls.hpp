#pragma once

#include <mpi.h>

namespace halograd {

/// Has a call of MPI that fails, on this communicator and those made of it, or on this window, wait before it ends the
/// job. MPI itself would end the job at once, with a status of its own, where a put or a message meets a rank that has
/// died (UCX from 1.18 on reports it); a Watchdog (watchdog.hpp) needs a moment to end this rank as it should.
void outlast_deaths(MPI_Comm comm);
void outlast_deaths_by_window(MPI_Win window);
/// Has a crash of this process wait likewise, for some seconds, and an exit() that comes from within MPI: where a
/// message meets a process that has died, UCX 1.18 calls abort(), or crashes, and MPICH 5 calls exit().
void outlast_deaths_by_crash();
/// From now on an exit() is the program's own.
void expect_exit();

}  // namespace halograd
