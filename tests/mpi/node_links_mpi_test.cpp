#include "mpi/node_links.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
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
