#include "window/shared_segment.hpp"

#include <sys/statvfs.h>

#include <sstream>
#include <string>

#include "support/memory.hpp"

namespace halograd {

SharedSegment::SharedSegment(const Communicator& comm, std::size_t bytes, RmaReach reach)
    : comm_(comm), node_(comm.node()) {
  require_memory(bytes);
  node_memory_ = NodeMemory(comm, bytes);
  map_ranks();
  if (reach == RmaReach::all || (reach == RmaReach::other_nodes && node_.ranks() < comm_.ranks())) {
    window_ = OwnedWindow::over(comm_, own(), bytes);
  }
  sync();
  comm_.barrier();
}

// Says what to change; where memory that is not there is touched, the system ends the job without a word.
void SharedSegment::require_memory(std::size_t bytes) const {
  const int ranks = node_.ranks();
  const double needed = node_.sum(static_cast<double>(bytes));
  struct statvfs shm {};
  std::string message;
  if (ranks > 1 && statvfs("/dev/shm", &shm) == 0) {
    const double free = static_cast<double>(shm.f_bavail) * static_cast<double>(shm.f_frsize);
    if (needed > free) {
      std::ostringstream text;
      text << "the halos of the " << ranks << " ranks on the node of rank " << comm_.rank() << " need "
           << static_cast<long>(needed / 1048576) + 1 << " MiB of shared memory, but /dev/shm has "
           << static_cast<long>(free / 1048576)
           << " MiB free; use fewer ranks per node, a topology with fewer neighbours, "
           << "fewer comm.slots, or a larger /dev/shm";
      message = text.str();
    }
  }
  const double available = available_memory();  // what lies in /dev/shm counts as memory too
  if (message.empty() && needed > available) {
    std::ostringstream text;
    text << "the halos of the " << ranks << " ranks on the node of rank " << comm_.rank() << " need "
         << static_cast<long>(needed / 1048576) + 1 << " MiB of memory, but " << static_cast<long>(available / 1048576)
         << " MiB are free; use fewer ranks per node, a topology with fewer neighbours, or fewer comm.slots";
    message = text.str();
  }
  comm_.fail_together(message);
}

void SharedSegment::map_ranks() {
  of_rank_.assign(static_cast<std::size_t>(comm_.ranks()), nullptr);
  const std::vector<int> in_all = node_.gather(comm_.rank());
  for (int i = 0; i < node_.ranks(); ++i) of_rank_[in_all[i]] = static_cast<std::byte*>(node_memory_.of(i));
}

}  // namespace halograd
