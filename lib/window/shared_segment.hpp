#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace halograd {

/// One zeroed region of memory a rank, aligned to 64 bytes, that ranks of the same node reach by load and store and,
/// where asked for or where there are several nodes, all ranks of the communicator by RMA. The windows over it are in a
/// lock_all epoch for their whole life.
class SharedSegment {
 public:
  /// Collective. Throws Error on all ranks where a node has too little shared memory, or where MPI offers no one-sided
  /// communication between the ranks, or not the unified memory model. `force_rma`: the RMA window is made also for a
  /// single node; the same on all ranks.
  SharedSegment(MPI_Comm comm, std::size_t bytes, bool force_rma);
  /// Collective; but while an exception unwinds the stack of this rank alone, the windows are left to the abort that
  /// follows, since the other ranks do not come.
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// This rank's region.
  [[nodiscard]] std::byte* own() const { return of_rank_[rank_]; }
  /// Another rank's region; null where it does not share memory with this one.
  [[nodiscard]] std::byte* of(int rank) const { return of_rank_[rank]; }
  /// Reaches all regions, displacements in bytes. Null where all ranks share memory and it was not forced.
  [[nodiscard]] MPI_Win window() const { return window_; }
  /// A private duplicate of the communicator.
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  /// Memory barrier between loads and stores of the ranks of a node, as MPI asks for.
  void sync_node() const { MPI_Win_sync(node_window_); }
  /// The same between this rank's loads and the RMA of others.
  void sync() const {
    if (window_ != MPI_WIN_NULL) MPI_Win_sync(window_);
  }

 private:
  void require_memory(std::size_t bytes) const;
  void allocate(std::size_t bytes);
  void map_ranks();

  int rank_ = 0;
  int exceptions_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL, node_ = MPI_COMM_NULL;
  MPI_Win node_window_ = MPI_WIN_NULL, window_ = MPI_WIN_NULL;
  std::vector<std::byte*> of_rank_;
};

}  // namespace halograd
