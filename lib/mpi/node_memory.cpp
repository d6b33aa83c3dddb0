#include "mpi/node_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace halograd {

NodeMemory::NodeMemory(const Communicator& comm, std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  std::optional<SharedFile> own;  // a rank alone needs no room in /dev/shm, of which containers have little
  if (comm.node_ranks() > 1) own.emplace(bytes);
  for (const std::uint64_t key : comm.node().gather(own ? own->key() : 0)) {
    of_rank_.push_back(own ? map_shared_file(key) : map_own_memory(bytes));
  }
  const bool mapped = std::find(of_rank_.begin(), of_rank_.end(), nullptr) == of_rank_.end();
  comm.fail_together(mapped
                         ? ""
                         : "cannot map " + std::to_string(bytes) +
                               " bytes of /dev/shm for each rank on the node of rank " + std::to_string(comm.rank()));
}

}  // namespace halograd
