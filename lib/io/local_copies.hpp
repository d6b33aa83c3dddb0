#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/replica_memory.hpp"
#include "io/run_folder.hpp"
#include "mpi/communicator.hpp"

/// Copies of a run's state on the nodes' own disks, cheap enough to be made often: each rank keeps its own state and,
/// where there are several nodes, that of a rank of the node before (docs/file-formats.md). From them a checkpoint of
/// the run is made again, where any one node is lost.
namespace halograd {

/// A copy: the state of one rank.
struct LocalCopy {
  CheckpointHeader header;
  ReplicaMemory memory;
};

/// Throws Error where the file is no copy, or a damaged one.
LocalCopy read_local_copy(const std::string& path);

/// What the run's folders on the nodes are called; empty as long as they have no name. Throws Error where the run's
/// file holds something else.
std::string read_local_name(const RunFolder& run);

/// Where this run's copies are on this rank's node: a folder below `place`, whose first part may be an environment
/// variable ("$TMPDIR"); empty as long as the run's folders have no name. Collective. Throws
/// CollectiveError where there is no such variable.
std::string local_folder(const Communicator& comm, const std::string& place, const RunFolder& run);

/// Collective: another name, which no other run has. Folders of the one before are removed from these nodes, and what
/// is left of them on others is the run's no more. Throws CollectiveError.
std::string rename_local_folder(const Communicator& comm, const std::string& place, const RunFolder& run);

/// Collective: the same, and makes the folder. Throws CollectiveError.
std::string make_local_folder(const Communicator& comm, const std::string& place, const RunFolder& run);

/// Collective: copies of this step, durable on all nodes when it returns. Those of the step before are kept, older ones
/// removed. Throws CollectiveError where a node's disk fails; on all nodes there are then the copies of steps before.
void write_local_copies(const Communicator& comm, const std::string& folder, const CheckpointHeader& header,
                        const ReplicaState& state);

/// Collective, on any number of ranks: writes the checkpoint of the newest step after `step` of which a whole copy of
/// every rank's state is left on these nodes. Returns its path; empty where there is no such step. Damaged copies are
/// removed. Throws CollectiveError where the checkpoint cannot be written.
std::string restore_local_copies(const Communicator& comm, const std::string& folder, std::int64_t step,
                                 const RunFolder& run, const std::vector<NamedTensor>& parameters,
                                 const std::vector<NamedTensor>& statistics, bool compress);

/// Collective: the run is done with its copies. What cannot be removed is left.
void discard_local_copies(const Communicator& comm, const std::string& folder, const RunFolder& run);

}  // namespace halograd
