#include "window/halo_layout.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "window/fingerprint.hpp"

namespace halograd {
namespace {

/// Whether no rank reads halos in another's memory.
bool are_apart(const HaloWindow::Options& options) {
  return options.force_put || options.memory == HaloMemory::device || options.inject.bandwidth_mb > 0;
}

/// Everything that the layouts of all ranks follow from, and how halos travel.
std::uint64_t fingerprint_of(const Topology& topology, std::size_t length, const HaloWindow::Options& options) {
  const Carrier carrier = options.free ? options.free_carrier : options.carrier;
  return fingerprint({fingerprint(topology.graph()), length, static_cast<std::uint64_t>(options.slots), options.free,
                      options.exact, carrier == Carrier::send, options.memory == HaloMemory::device, are_apart(options),
                      options.force_put});
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
  std::string message;
  if (topology.ranks() != comm.ranks()) {
    message = "halo window: the topology has " + std::to_string(topology.ranks()) + " ranks, the communicator " +
              std::to_string(comm.ranks());
  } else if (options.slots < 2) {
    message = "comm.slots is " + std::to_string(options.slots) + "; expected at least 2";
  }
  comm.fail_together(message);
  require_same(
      comm, fingerprint_of(topology, length, options),
      "halo window: ranks differ in topology, length, slots, pace, transport, force_put, an injected bandwidth or "
      "the halos' memory");
  std::vector<int> nodes = comm.node_of_rank();
  if (are_apart(options)) std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

}  // namespace halograd
