#pragma once

#include <string>

namespace halograd {

/// Appends a line to the file that HALOGRAD_JOB_NOTES names, where it does: what the batch script cannot tell from an
/// exit status, since launchers report one of many ranks (jobscripts/heal.sh reads it). One of
///
///   checkpoint STEP   the newest one in the run folder is after that many steps
///   died RANK NODE    the rank has died there, or a disk, a device or a library failed it
///   running           a training begins
///   finished          and nothing is left to do: MPICH 4.2's mpiexec may end with status 0 where ranks were killed
///   error             the program has refused or given up the run, and says why: starting it again would not help
///
/// A line that cannot be written is left out.
void note_for_job(const std::string& line);

}  // namespace halograd
