#pragma once

#include <string>
#include <vector>

#include "io/run_folder.hpp"

namespace halograd {

/// The checkpoints of a run: checkpoints/step_00001200.h5, with two links beside the folder: checkpoint.h5 to the
/// newest and best.h5 to the best. For one process. Functions that change the folder throw Error.

/// Newest first, by the steps in their names. Throws Error where the folder cannot be read.
std::vector<std::string> stored_checkpoints(const RunFolder& folder);

/// Makes the folder, and removes what a job that was killed left half-written.
void prepare_checkpoints(const RunFolder& folder);

/// Puts a link, as a whole, in the place of any that is there. Both are files of the run folder.
void point_link(const std::string& link, const std::string& checkpoint);

/// The checkpoint that a link of the run folder leads to; empty where there is none.
std::string link_target(const RunFolder& folder, const std::string& link);

/// Takes a checkpoint out of the count, under the name that it has with `ending` behind it.
void set_aside(const std::string& checkpoint, const std::string& ending);

/// Removes the oldest until `keep` are left, never one that `best` names.
void remove_old_checkpoints(const RunFolder& folder, int keep, const std::string& best);

}  // namespace halograd
