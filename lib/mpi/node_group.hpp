#pragma once

#include "mpi/communicator.hpp"

namespace halograd {

/// Where a rank stands among nodes that hold the same number of ranks each.
struct NodeGroup {
  int nodes = 1, node = 0;           ///< how many, and which one is this rank's, by their lowest ranks
  int ranks_per_node = 1, rank = 0;  ///< and this rank's place on its node
};

/// Collective. `ranks_per_node` consecutive ranks, which share memory, count as a node; 0: all ranks that do. Throws
/// CollectiveError where those ranks do not share memory, and where nodes differ in their number of ranks.
NodeGroup node_group(const Communicator& comm, int ranks_per_node);

}  // namespace halograd
