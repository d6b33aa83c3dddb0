#include "mpi/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "mpi/ranks.hpp"

namespace halograd {
namespace {

TEST(Communicator, KnowsTheNodesOfTheRanks) {
  const char* expected = std::getenv("HALOGRAD_TEST_NODES");
  const int nodes = expected == nullptr ? 1 : std::stoi(expected);
  const Communicator comm(MPI_COMM_WORLD);
  EXPECT_EQ(comm.nodes(), nodes);
  EXPECT_EQ(comm.sum(comm.node_rank() == 0 ? 1 : 0), nodes);
  EXPECT_EQ(static_cast<int>(comm.node_of_rank().size()), all_ranks());
  EXPECT_EQ(comm.node_of_rank()[static_cast<std::size_t>(this_rank())] == this_rank(), comm.node_rank() == 0);
}

}  // namespace
}  // namespace halograd
