#include "window/halo_layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/random.hpp"

namespace halograd {
namespace {

/// Everything that the layouts of all ranks follow from, in one number that ranks can compare.
std::int64_t fingerprint(const Topology& topology, std::size_t length, const HaloWindow::Options& options) {
  const bool sends = (options.free ? options.free_carrier : options.carrier) == Carrier::send;
  std::uint64_t hash = random_bits(length, static_cast<std::uint64_t>(options.slots) * 32 + (options.free ? 16 : 0) +
                                               (sends ? 8 : 0) + (options.memory == HaloMemory::device ? 4 : 0) +
                                               (options.exact ? 2 : 0) + (options.force_put ? 1 : 0));
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
      hash = random_bits(hash, (static_cast<std::uint64_t>(rank) << 32U) + static_cast<std::uint64_t>(neighbour.rank));
    }
  }
  return static_cast<std::int64_t>(hash >> 1U);
}

}  // namespace

HaloLayout::HaloLayout(const Topology& topology, const std::vector<int>& node_of_rank, int rank, std::size_t length,
                       int slots, HaloMemory memory)
    : counter_bytes_(cache_line * (topology.in_neighbours(rank).size() + topology.out_neighbours(rank).size())),
      slots_(static_cast<std::size_t>(slots)),
      weight_bytes_(whole_lines(length * sizeof(float))),
      slot_bytes_((memory == HaloMemory::host ? weight_bytes_ : 0) + cache_line) {
  const auto near = [&](const Neighbour& neighbour) { return node_of_rank[neighbour.rank] == node_of_rank[rank]; };
  const auto& readers = topology.out_neighbours(rank);
  if (std::any_of(readers.begin(), readers.end(), near)) ++halos_;
  for (const Neighbour& neighbour : topology.in_neighbours(rank)) {
    in_slots_.push_back(halos_);
    if (!near(neighbour)) ++halos_;
  }
}

std::vector<int> checked_nodes(const Communicator& comm, const Topology& topology, std::size_t length,
                               const HaloWindow::Options& options) {
  const int ranks = comm.ranks();
  const std::int64_t mine = fingerprint(topology, length, options);
  const bool same = comm.smallest(mine) == comm.largest(mine);

  std::string message;
  if (topology.ranks() != ranks) {
    message = "halo window: the topology has " + std::to_string(topology.ranks()) + " ranks, the communicator " +
              std::to_string(ranks);
  } else if (options.slots < 2) {
    message = "comm.slots is " + std::to_string(options.slots) + "; expected at least 2";
  } else if (!same) {
    message = "halo window: ranks differ in topology, length, slots, force_put, transport or the halos' memory";
  }
  comm.fail_together(message);
  std::vector<int> nodes = comm.node_of_rank();
  const bool apart = options.force_put || options.memory == HaloMemory::device || options.inject.bandwidth_mb > 0;
  if (apart) std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

}  // namespace halograd
