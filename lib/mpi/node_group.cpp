#include "mpi/node_group.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace halograd {

NodeGroup node_group(const Communicator& comm, int ranks_per_node) {
  std::vector<int> lowest = comm.node_of_rank();
  std::string apart;
  for (int rank = 0; ranks_per_node > 0 && rank < comm.ranks(); ++rank) {
    const int first = rank / ranks_per_node * ranks_per_node;
    const auto& node_of = comm.node_of_rank();
    if (apart.empty() && node_of[static_cast<std::size_t>(rank)] != node_of[static_cast<std::size_t>(first)]) {
      apart = "comm.ranks_per_node = " + std::to_string(ranks_per_node) + " makes a node of ranks " +
              std::to_string(first) + " and " + std::to_string(rank) +
              ", which do not share memory; expected consecutive ranks of a node";
    }
    lowest[static_cast<std::size_t>(rank)] = first;
  }
  comm.fail_together(apart);
  const auto own = static_cast<std::size_t>(comm.rank());
  const auto count_of = [&](int node) { return static_cast<int>(std::count(lowest.begin(), lowest.end(), node)); };
  NodeGroup group;
  group.nodes = 0;
  std::string uneven;
  for (std::size_t rank = 0; rank < lowest.size(); ++rank) {
    if (lowest[rank] != static_cast<int>(rank)) continue;
    if (lowest[rank] == lowest[own]) group.node = group.nodes;
    ++group.nodes;
    if (count_of(lowest[rank]) != count_of(lowest[0])) {
      uneven = "averager hierarchical: the node of rank 0 has " + std::to_string(count_of(lowest[0])) +
               " ranks, but the node of rank " + std::to_string(rank) + " has " +
               std::to_string(count_of(lowest[rank])) + "; expected the same number on each";
    }
  }
  comm.fail_together(uneven);
  group.ranks_per_node = count_of(lowest[own]);
  group.rank = static_cast<int>(std::count(lowest.begin(), lowest.begin() + comm.rank(), lowest[own]));
  return group;
}

}  // namespace halograd
