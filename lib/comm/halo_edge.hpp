#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/halo_layout.hpp"
#include "comm/topology.hpp"

namespace halograd {

/// One edge of the halo window as a rank sees it.
struct HaloEdge {
  int rank;                  ///< the neighbour
  std::size_t number_there;  ///< of this edge among the neighbour's out-edges (of its in-edges, for an out-edge)
  HaloLayout layout_there;
  std::byte* shared;         ///< the neighbour's segment; null: by MPI
  std::int64_t* counter;     ///< on this rank: what the neighbour has published (in-edge) or acknowledged (out-edge)
  std::int64_t message = 0;  ///< origin of the last MPI_Accumulate into the neighbour's counter
  bool in_flight = false;    ///< that one is not known to be complete
};

// Counters are written by other processes, through stores or through MPI, while this one reads them.
static_assert(std::atomic_ref<std::int64_t>::is_always_lock_free);

inline std::int64_t* counter_at(std::byte* segment, std::size_t offset) {
  return reinterpret_cast<std::int64_t*>(segment + offset);
}

inline std::int64_t load_counter(std::int64_t* counter) {
  return std::atomic_ref<std::int64_t>(*counter).load(std::memory_order_acquire);
}

inline void store_counter(std::int64_t* counter, std::int64_t value) {
  std::atomic_ref<std::int64_t>(*counter).store(value, std::memory_order_release);
}

/// Where a rank stands in a list of neighbours.
inline std::size_t position(const std::vector<Neighbour>& neighbours, int rank) {
  const auto found =
      std::find_if(neighbours.begin(), neighbours.end(), [rank](const Neighbour& n) { return n.rank == rank; });
  return static_cast<std::size_t>(found - neighbours.begin());
}

}  // namespace halograd
