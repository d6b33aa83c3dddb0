#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/owned_window.hpp"
#include "mpi/shared_file.hpp"

namespace halograd {

/// Memory of each rank of a node that all of them reach by load and store: a window of MPI, or files in /dev/shm where
/// MPI does not know that these ranks share memory (split_by_memory()).
class NodeMemory {
 public:
  /// None.
  NodeMemory() = default;
  /// Collective over `comm`: `bytes` of new memory of this rank, which may differ between ranks, for those of its node.
  /// Throws CollectiveError on all ranks of `comm` where a node cannot have it.
  NodeMemory(const Communicator& comm, std::size_t bytes);

  /// Where the memory of a rank of the node lies in this process.
  [[nodiscard]] void* of(int rank) const;
  /// Orders loads and stores of this rank with what others do to its memory.
  void sync() const;

 private:
  /// Collective over the node. Returns whether there is memory of all ranks.
  bool map_files(const Communicator& node, std::size_t bytes);

  OwnedWindow window_;
  std::vector<MappedFile> files_;  // of the ranks of the node, where there is no window
};

}  // namespace halograd
