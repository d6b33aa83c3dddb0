#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "comm/halo_window.hpp"
#include "comm/topology.hpp"

namespace halograd {

/// Where things lie in a rank's part of the halo window, in bytes from its start. Every rank can compute every other
/// rank's layout. First the counters, each on a cache line of its own so that no two ranks write to one line: `latest`
/// of each in-edge, `acknowledged` of each out-edge; then the slots of each in-edge.
class HaloLayout {
 public:
  static constexpr std::size_t line = 64;

  /// Edges count by their position in topology.in_neighbours(rank) and out_neighbours(rank); `length` floats a slot.
  HaloLayout(const Topology& topology, int rank, std::size_t length, int slots)
      : in_edges_(topology.in_neighbours(rank).size()),
        out_edges_(topology.out_neighbours(rank).size()),
        slots_(static_cast<std::size_t>(slots)),
        slot_bytes_((length * sizeof(float) + line - 1) / line * line + line) {}

  /// The newest version that in-neighbour `edge` has completed here.
  [[nodiscard]] std::size_t latest(std::size_t edge) const { return line * edge; }
  /// The newest version that out-neighbour `edge` has read from its halo.
  [[nodiscard]] std::size_t acknowledged(std::size_t edge) const { return line * (in_edges_ + edge); }
  /// The slot of `version` of in-neighbour `edge`.
  [[nodiscard]] std::size_t slot(std::size_t edge, std::int64_t version) const {
    return line * (in_edges_ + out_edges_) + slot_bytes_ * (edge * slots_ + static_cast<std::size_t>(version) % slots_);
  }
  /// When the put of `version` began (RankClock): behind the weights, on a line of its own.
  [[nodiscard]] std::size_t sent(std::size_t edge, std::int64_t version) const {
    return slot(edge, version) + slot_bytes_ - line;
  }
  [[nodiscard]] std::size_t bytes() const { return slot(in_edges_, 0); }

 private:
  std::size_t in_edges_, out_edges_, slots_, slot_bytes_;
};

/// Collective. This rank's layout. Throws Error on all ranks where it would make them write past each other's memory:
/// arguments that differ between ranks, a topology for another number of ranks, too few slots.
HaloLayout checked_halo_layout(MPI_Comm comm, const Topology& topology, std::size_t length,
                               const HaloWindow::Options& options);

}  // namespace halograd
