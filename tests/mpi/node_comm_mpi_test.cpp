#include "mpi/node_comm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mpi/communicator.hpp"
#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd {
namespace {

TEST(NodeComm, HasTheRanksOfTheNodeInTheirOrderAndIsMadeOnce) {
  const MPI_Comm node = node_comm(MPI_COMM_WORLD);
  EXPECT_EQ(node_comm(MPI_COMM_WORLD), node);

  const Communicator comm(MPI_COMM_WORLD);
  int ranks = 0, rank = 0;
  MPI_Comm_size(node, &ranks);
  MPI_Comm_rank(node, &rank);
  EXPECT_EQ(ranks, comm.node_ranks());
  const int mine = this_rank();
  std::vector<int> all(static_cast<std::size_t>(ranks));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, node, &request);
  wait_politely(request);
  for (int i = 0; i < ranks; ++i) {
    EXPECT_EQ(comm.node_of_rank()[static_cast<std::size_t>(all[i])],
              comm.node_of_rank()[static_cast<std::size_t>(mine)]);
    if (i > 0) {
      EXPECT_LT(all[i - 1], all[i]);
    }
  }
}

struct Counted {
  explicit Counted(int& alive) : count(&alive) { ++*count; }
  Counted(Counted&& other) noexcept : count(other.count) { ++*count; }
  ~Counted() { --*count; }
  int* count;
};

TEST(KeptWith, IsMadeOnceACommunicatorAndEndsWithIt) {
  int alive = 0, made = 0;
  const auto get = [&](MPI_Comm comm) -> Counted& {
    return kept_with(comm, [&] {
      ++made;
      return Counted(alive);
    });
  };
  MPI_Comm first = duplicate(MPI_COMM_WORLD);
  Counted& kept = get(first);
  EXPECT_EQ(&get(first), &kept);
  EXPECT_EQ(made, 1);
  MPI_Comm second = duplicate(first);  // does not inherit it
  EXPECT_NE(&get(second), &kept);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(alive, 2);
  MPI_Comm_free(&first);
  EXPECT_EQ(alive, 1);
  MPI_Comm_free(&second);
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace halograd
