#include "mpi/node_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace halograd {
namespace {

/// Collective: a file of each rank of the node that all of them have open, and that nobody else will.
std::vector<SharedFile> files_of_all(const Communicator& node) {
  SharedFile own;
  std::vector<SharedFile> files;
  for (const std::uint64_t key : node.gather(own.key())) files.emplace_back(key);
  node.barrier();  // all have opened it
  return files;
}

}  // namespace

NodeMemory::NodeMemory(const Communicator& comm, std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const Communicator& node = comm.node();
  if (node.ranks() == 1) {  // needs no room in /dev/shm, of which containers have little
    of_rank_.push_back(map_own_memory(bytes));
  } else {
    const std::vector<SharedFile> files = files_of_all(node);
    const bool has_room = files[static_cast<std::size_t>(node.rank())].allocate(bytes);
    if (node.smallest(has_room ? 1 : 0) == 1) {
      for (const SharedFile& file : files) of_rank_.push_back(file.map());
    }
  }
  const bool mapped = !of_rank_.empty() && std::find(of_rank_.begin(), of_rank_.end(), nullptr) == of_rank_.end();
  comm.fail_together(mapped ? ""
                            : "cannot map " + std::to_string(bytes) +
                                  " bytes of shared memory for each rank on the node of rank " +
                                  std::to_string(comm.rank()));
}

}  // namespace halograd
