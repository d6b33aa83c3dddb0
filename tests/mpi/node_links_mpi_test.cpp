#include "mpi/node_links.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "tests/mpi/ranks.hpp"

namespace halograd::node_links_mpi_test {
namespace {

/// Who has died, as far as this rank learns within `milliseconds`; -1: nobody.
int dead_within(NodeLinks& links, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  int dead = -1;
  while (dead < 0 && std::chrono::steady_clock::now() < end) {
    dead = links.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return dead;
}

TEST(NodeLinks, ReachEveryRankHoweverLateItComes) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300 * this_rank()));
  const NodeLinks links(MPI_COMM_WORLD, this_rank());
  EXPECT_TRUE(links.complete());
}

TEST(NodeLinks, WhoTakesLeaveIsNotDead) {
  auto links = std::make_unique<NodeLinks>(MPI_COMM_WORLD, this_rank());
  const bool leaves = this_rank() % 2 == 0;  // the first one too, which all others are linked to
  if (leaves) links.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (!leaves) {
    EXPECT_EQ(dead_within(*links, 1500), -1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Leaves this process descriptors below `more` above its lowest free one; the limit before on destruction.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest);
    const rlimit few{static_cast<rlim_t>(lowest + more), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(NodeLinks, AFirstNodeThatMayOpenFewFilesLinksSomeAndNobodyIsDead) {
  std::unique_ptr<NodeLinks> links;
  {
    std::optional<FewFiles> few;
    if (this_rank() == 0) few.emplace(64 + 2);  // beside the 64 that it keeps: one to listen, one for a link
    links = std::make_unique<NodeLinks>(MPI_COMM_WORLD, this_rank());
  }
  const int complete = Communicator(MPI_COMM_WORLD).sum(links->complete() ? 1 : 0);
  EXPECT_EQ(complete, all_ranks() <= 2 ? all_ranks() : 1);  // without the first, which does not reach all
  EXPECT_EQ(dead_within(*links, 1500), -1);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NodeLinks, WordOfADeathReachesAll) {
  NodeLinks links(MPI_COMM_WORLD, this_rank());
  const int teller = all_ranks() - 1, dead = 1234;
  if (this_rank() != teller) {
    EXPECT_EQ(dead_within(links, 20000), dead);
  }
  if (this_rank() == teller || this_rank() == 0) links.tell(dead);  // the first passes it on, as the watchdog does
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace halograd::node_links_mpi_test
