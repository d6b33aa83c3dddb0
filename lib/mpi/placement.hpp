#pragma once

#include <string>
#include <vector>

#include "mpi/communicator.hpp"

namespace halograd {

/// Where a rank runs.
struct RankPlace {
  std::string node;
  std::string cores;    ///< that it may use: "0-3,8"
  std::string device;   ///< its accelerator; empty on cores
  std::string address;  ///< of that on the node's PCI bus
};

/// Where the ranks of one node run, in words: "ranks 0-1 share cores 0-7", "rank 0: cores 0-3; rank 1: cores 4-7".
struct NodePlaces {
  std::string node, text;
};

/// The name of this rank's node: Slurm's, or that of the host.
std::string node_name();

/// One entry a node, in the order of the lowest ranks.
std::vector<NodePlaces> places_by_node(const std::vector<RankPlace>& ranks);

/// Throws Error where more than `most` ranks of a node share an accelerator.
void require_devices(const std::vector<RankPlace>& ranks, int most);

/// Collective: of all ranks, on rank 0; empty elsewhere. `device`: the number of this rank's accelerator among those
/// that it sees, -1 on cores.
std::vector<RankPlace> gather_places(const Communicator& comm, int device);

}  // namespace halograd
