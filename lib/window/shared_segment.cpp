#include "window/shared_segment.hpp"

#include <sys/statvfs.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <sstream>
#include <string>

#include "kernels/error.hpp"
#include "mpi/node_comm.hpp"
#include "mpi/wait.hpp"
#include "support/memory.hpp"
#include "window/windows.hpp"

namespace halograd {

namespace {

constexpr std::size_t alignment = 64;

std::byte* aligned(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (alignment - address % alignment) % alignment;
}

}  // namespace

SharedSegment::SharedSegment(MPI_Comm comm, std::size_t bytes, bool force_rma)
    : exceptions_(std::uncaught_exceptions()), comm_(duplicate(comm)), node_(node_comm(comm)) {
  MPI_Comm_rank(comm_, &rank_);
  require_memory(bytes);
  allocate(bytes);
  map_ranks();
  int ranks = 0, node_ranks = 0;
  MPI_Comm_size(comm_, &ranks);
  MPI_Comm_size(node_, &node_ranks);
  require_unified(comm_, node_window_);
  if (ranks > 1 && (force_rma || node_ranks < ranks)) window_ = create_window(comm_, own(), bytes);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, node_window_);
  if (window_ != MPI_WIN_NULL) MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
  std::memset(own(), 0, bytes);  // by its reader, so that the pages lie in the reader's part of the node's memory
  sync();
  sync_node();
  barrier(comm_);
}

SharedSegment::~SharedSegment() {
  if (std::uncaught_exceptions() > exceptions_) return;
  if (window_ != MPI_WIN_NULL) {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  MPI_Win_unlock_all(node_window_);
  MPI_Win_free(&node_window_);
  MPI_Comm_free(&comm_);
}

// MPI would map more than there is, and the first touch of a page too many ends the job with a bare SIGBUS.
void SharedSegment::require_memory(std::size_t bytes) const {
  int ranks = 0;
  MPI_Comm_size(node_, &ranks);
  double needed = static_cast<double>(bytes);
  sum_over_ranks(node_, &needed, 1);
  struct statvfs shm {};
  std::string message;
  if (ranks > 1 && statvfs("/dev/shm", &shm) == 0) {
    const double free = static_cast<double>(shm.f_bavail) * static_cast<double>(shm.f_frsize);
    if (needed > free) {
      std::ostringstream text;
      text << "the halos of the " << ranks << " ranks on the node of rank " << rank_ << " need "
           << static_cast<long>(needed / 1048576) + 1 << " MiB of shared memory, but /dev/shm has "
           << static_cast<long>(free / 1048576)
           << " MiB free; use fewer ranks a node, a topology with fewer neighbours, "
           << "fewer comm.slots, or a larger /dev/shm";
      message = text.str();
    }
  }
  const double available = available_memory();  // what lies in /dev/shm counts as memory too
  if (message.empty() && needed > available) {
    std::ostringstream text;
    text << "the halos of the " << ranks << " ranks on the node of rank " << rank_ << " need "
         << static_cast<long>(needed / 1048576) + 1 << " MiB of memory, but " << static_cast<long>(available / 1048576)
         << " MiB are left; use fewer ranks a node, a topology with fewer neighbours, or fewer comm.slots";
    message = text.str();
  }
  fail_together(comm_, message);
}

void SharedSegment::allocate(std::size_t bytes) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  MPI_Comm_set_errhandler(node_, MPI_ERRORS_RETURN);
  void* memory = nullptr;
  const int result =
      MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + alignment), 1, info, node_, &memory, &node_window_);
  MPI_Comm_set_errhandler(node_, MPI_ERRORS_ARE_FATAL);
  MPI_Info_free(&info);
  fail_together(comm_, result == MPI_SUCCESS ? ""
                                             : "MPI_Win_allocate_shared failed for " + std::to_string(bytes) +
                                                   " bytes on rank " + std::to_string(rank_));
}

// Processes map the region at different addresses but all on a page boundary, so that aligning moves each by the same.
void SharedSegment::map_ranks() {
  int ranks = 0, node_ranks = 0;
  MPI_Comm_size(comm_, &ranks);
  MPI_Comm_size(node_, &node_ranks);
  MPI_Group all = MPI_GROUP_NULL, node = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &all);
  MPI_Comm_group(node_, &node);
  std::vector<int> on_node(node_ranks), in_all(node_ranks);
  std::iota(on_node.begin(), on_node.end(), 0);
  MPI_Group_translate_ranks(node, node_ranks, on_node.data(), all, in_all.data());
  MPI_Group_free(&node);
  MPI_Group_free(&all);

  of_rank_.assign(ranks, nullptr);
  for (int i = 0; i < node_ranks; ++i) {
    MPI_Aint size = 0;
    int unit = 0;
    void* memory = nullptr;
    MPI_Win_shared_query(node_window_, i, &size, &unit, &memory);
    of_rank_[in_all[i]] = aligned(memory);
  }
}

}  // namespace halograd
