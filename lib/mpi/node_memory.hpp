#pragma once

#include <cstddef>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/shared_file.hpp"

namespace halograd {

/// Memory of each rank of a node that all of them reach by load and store: files in /dev/shm, where there are several.
/// Windows of MPI (MPI_Win_allocate_shared) are the same memory, but come by collective calls that keep the core while
/// they wait, and not at all where MPI does not know that ranks share memory (split_by_memory()).
class NodeMemory {
 public:
  /// None.
  NodeMemory() = default;
  /// Collective over `comm`: `bytes` zeros of this rank, which may differ between ranks, for those of its node; on a
  /// page boundary, in pages that lie near it. Throws CollectiveError on all ranks of `comm` where a node cannot have
  /// it.
  NodeMemory(const Communicator& comm, std::size_t bytes);

  /// Where the memory of a rank of the node lies in this process.
  [[nodiscard]] void* of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)].get(); }

 private:
  std::vector<MappedMemory> of_rank_;
};

}  // namespace halograd
