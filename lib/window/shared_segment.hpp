#pragma once

#include <cstddef>
#include <vector>

#include "mpi/node_memory.hpp"
#include "mpi/owned_window.hpp"

namespace halograd {

/// One zeroed region of memory per rank, aligned to 64 bytes, that ranks of the same node reach by load and store and,
/// where asked for or where there are several nodes, all ranks of the communicator by RMA. Windows over it are in a
/// lock_all epoch for their whole life.
class SharedSegment {
 public:
  /// Collective. Throws Error on all ranks where a node has too little shared memory, or where MPI offers no one-sided
  /// communication between the ranks, or not the unified memory model. `force_rma`: the RMA window is made also for a
  /// single node; the same on all ranks.
  SharedSegment(const Communicator& comm, std::size_t bytes, bool force_rma);

  /// This rank's region.
  [[nodiscard]] std::byte* own() const { return of_rank_[comm_.rank()]; }
  /// Another rank's region; null where it does not share memory with this one.
  [[nodiscard]] std::byte* of(int rank) const { return of_rank_[rank]; }
  /// Reaches all regions, displacements in bytes. None where all ranks share memory and it was not forced.
  [[nodiscard]] const OwnedWindow& window() const { return window_; }
  /// A private duplicate of the communicator.
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// Memory barrier between loads and stores of the ranks of a node, as MPI asks for.
  void sync_node() const { node_memory_.sync(); }
  /// The same between this rank's loads and the RMA of others.
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
