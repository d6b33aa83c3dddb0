#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/topology.hpp"
#include "window/cache_line.hpp"
#include "window/halo_window.hpp"

namespace halograd {

/// Where things lie in a rank's part of the halo window, in bytes from its start. Every rank can compute every other
/// rank's layout. First the counters, each on a cache line of its own so that no two ranks write to one line: `latest`
/// of each in-edge, `acknowledged` of each out-edge. Then, where an out-neighbour is on the same node, the slots of
/// this rank's own weights, which all of those read; then the slots of each in-neighbour on another node.
class HaloLayout {
 public:
  /// Edges count by their position in topology.in_neighbours(rank) and out_neighbours(rank); `length` floats a slot.
  /// Ranks of equal `node_of_rank` read each other's weights where these lie.
  HaloLayout(const Topology& topology, const std::vector<int>& node_of_rank, int rank, std::size_t length, int slots,
             HaloMemory memory);

  /// The number of the newest halo that in-neighbour `edge` has completed.
  [[nodiscard]] std::size_t latest(std::size_t edge) const { return cache_line * edge; }
  /// The newest version of this rank that out-neighbour `edge` has read.
  [[nodiscard]] std::size_t acknowledged(std::size_t edge) const { return cache_line * (in_slots_.size() + edge); }
  /// The slot of `version` of this rank's weights.
  [[nodiscard]] std::size_t own_slot(std::int64_t version) const { return place(0, version); }
  /// The slot of halo number `number` of in-neighbour `edge`, which counts as on another node.
  [[nodiscard]] std::size_t slot(std::size_t edge, std::int64_t number) const { return place(in_slots_[edge], number); }
  /// The stamp of what lies in a slot: behind the weights, on a line of its own.
  [[nodiscard]] std::size_t stamp(std::size_t slot) const { return slot + slot_bytes_ - cache_line; }
  [[nodiscard]] std::size_t bytes() const { return place(halos_, 0); }

  /// In the device region: the slot of halo number `number` of in-neighbour `edge`.
  [[nodiscard]] std::size_t device_slot(std::size_t edge, std::int64_t number) const {
    return weight_bytes_ * (edge * slots_ + static_cast<std::size_t>(number) % slots_);
  }
  [[nodiscard]] std::size_t device_bytes() const { return device_slot(in_slots_.size(), 0); }

 private:
  [[nodiscard]] std::size_t place(std::size_t halo, std::int64_t number) const {
    return counter_bytes_ + slot_bytes_ * (halo * slots_ + static_cast<std::size_t>(number) % slots_);
  }

  std::vector<std::size_t> in_slots_;  // per in-edge: which halo is its; of no meaning on the same node
  std::size_t counter_bytes_, halos_ = 0, slots_, weight_bytes_, slot_bytes_;
};

/// Collective. For each rank, what stands for its node: the same for ranks that share memory, each its own where no
/// rank reads halos in another's memory: with `force_put`, in device memory, or where each edge is to have its share of
/// an injected bandwidth. Throws Error on all ranks where layouts would make them write past each other's memory:
/// arguments that differ between ranks, a topology for another number of ranks, too few slots.
std::vector<int> checked_nodes(const Communicator& comm, const Topology& topology, std::size_t length,
                               const HaloWindow::Options& options);

}  // namespace halograd
