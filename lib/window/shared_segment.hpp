#pragma once

#include <cstddef>
#include <vector>

#include "mpi/node_memory.hpp"
#include "mpi/owned_window.hpp"

namespace halograd {

/// Which ranks reach a region by RMA.
enum class RmaReach {
  none,
  other_nodes,  ///< all, where there are several nodes
  all,          ///< also on a single node
};

/// One zeroed region of memory per rank, aligned to a cache line, that ranks of the same node reach by load and store
/// and, as far as is asked for, all ranks of the communicator by RMA. Windows over it are in a lock_all epoch for their
/// whole life.
class SharedSegment {
 public:
  /// Collective. Throws Error on all ranks where a node has too little shared memory, or where MPI offers no one-sided
  /// communication between the ranks, or not the unified memory model. `reach` is the same on all ranks.
  SharedSegment(const Communicator& comm, std::size_t bytes, RmaReach reach);

  /// This rank's region.
  [[nodiscard]] std::byte* own() const { return of_rank_[comm_.rank()]; }
  /// Another rank's region; null where it does not share memory with this one.
  [[nodiscard]] std::byte* of(int rank) const { return of_rank_[rank]; }
  /// Reaches all regions, displacements in bytes; none where no rank is reached by RMA.
  [[nodiscard]] const OwnedWindow& window() const { return window_; }
  /// A private duplicate of the communicator.
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// Memory barrier between this rank's loads and the RMA of others, as MPI asks for.
  void sync() const { window_.sync(); }

 private:
  void require_memory(std::size_t bytes) const;
  void map_ranks();

  OwnedComm comm_;
  Communicator node_;
  NodeMemory node_memory_;
  OwnedWindow window_;
  std::vector<std::byte*> of_rank_;
};

}  // namespace halograd
