#include "mpi/node_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace halograd {
namespace {

/// Whether MPI makes windows of the memory of all ranks of this node.
bool known_to_mpi(const Communicator& node) {
  MPI_Comm known = MPI_COMM_NULL;
  MPI_Comm_split_type(node.handle(), MPI_COMM_TYPE_SHARED, node.rank(), MPI_INFO_NULL, &known);
  return OwnedComm::taken(known).ranks() == node.ranks();
}

}  // namespace

NodeMemory::NodeMemory(const Communicator& comm, std::size_t bytes) {
  if (comm.smallest(known_to_mpi(comm.node()) ? 1 : 0) == 1) {
    window_ = OwnedWindow::on_node(comm, bytes);
    return;
  }
  comm.fail_together(map_files(comm.node(), bytes)
                         ? ""
                         : "cannot map " + std::to_string(bytes) +
                               " bytes of /dev/shm for each rank on the node of rank " + std::to_string(comm.rank()));
}

void* NodeMemory::of(int rank) const {
  return window_ ? window_.memory_of(rank) : files_[static_cast<std::size_t>(rank)].get();
}

void NodeMemory::sync() const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  window_.sync();
}

bool NodeMemory::map_files(const Communicator& node, std::size_t bytes) {
  const SharedFile own(std::max<std::size_t>(bytes, 1));
  bool mapped = true;
  for (const std::uint64_t key : node.gather(own.key())) {
    files_.push_back(map_shared_file(key));
    mapped = mapped && files_.back() != nullptr;
  }
  node.barrier();  // all have mapped it
  return mapped;
}

}  // namespace halograd
