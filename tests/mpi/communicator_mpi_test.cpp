#include "mpi/communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/kept_with.hpp"
#include "mpi/node_memory.hpp"
#include "mpi/owned_window.hpp"
#include "mpi/shared_file.hpp"
#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::communicator_mpi_test {
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

TEST(Communicator, ItsNodeHasTheRanksThatShareMemoryInTheirOrderAndIsMadeOnce) {
  const Communicator comm(MPI_COMM_WORLD);
  EXPECT_EQ(comm.node().handle(), Communicator(MPI_COMM_WORLD).node().handle());
  const std::vector<int> all = comm.node().gather(comm.rank());
  ASSERT_EQ(static_cast<int>(all.size()), comm.node_ranks());
  EXPECT_EQ(all[static_cast<std::size_t>(comm.node_rank())], comm.rank());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (const int rank : all) EXPECT_EQ(comm.node_of_rank()[static_cast<std::size_t>(rank)], all[0]);
}

template <class T>
class Reductions : public testing::Test {};
using Numbers = testing::Types<int, std::int64_t, std::uint32_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(Reductions, Numbers);

TYPED_TEST(Reductions, AreThoseOfTheType) {
  const Communicator comm(MPI_COMM_WORLD);
  const auto mine = static_cast<TypeParam>(comm.rank() + 1), ranks = static_cast<TypeParam>(comm.ranks());
  EXPECT_EQ(comm.sum(mine), ranks * (ranks + 1) / 2);
  EXPECT_EQ(comm.largest(mine), ranks);
  EXPECT_EQ(comm.smallest(mine), TypeParam{1});
  std::array<TypeParam, 2> two{mine, 7};
  comm.sum(std::span<TypeParam>(two));
  EXPECT_EQ(two, (std::array<TypeParam, 2>{ranks * (ranks + 1) / 2, 7 * ranks}));
}

TEST(Communicator, ReducesIntegersThatADoubleCannotHold) {
  const Communicator comm(MPI_COMM_WORLD);
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(comm.largest(large), large);
  EXPECT_EQ(comm.smallest(-large), -large);
}

struct Row {
  std::int32_t rank;
  double value;
  bool operator==(const Row&) const = default;
};

TEST(Communicator, GathersInTheOrderOfTheRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(comm.ranks());
  const auto row_of = [](int rank) { return Row{rank, 0.5 * rank}; };
  const std::vector<Row> rows = comm.gather(row_of(comm.rank()));
  ASSERT_EQ(rows.size(), ranks);
  for (std::size_t i = 0; i < ranks; ++i) EXPECT_EQ(rows[i], row_of(static_cast<int>(i)));
  EXPECT_EQ(comm.gather_on_root(row_of(comm.rank())), comm.rank() == 0 ? rows : std::vector<Row>());

  const std::array<float, 2> mine{1.0F * static_cast<float>(comm.rank()), -1};
  const std::vector<float> all = comm.gather(std::span<const float>(mine));
  ASSERT_EQ(all.size(), 2 * ranks);
  for (std::size_t i = 0; i < ranks; ++i) EXPECT_EQ(all[2 * i], static_cast<float>(i));
  EXPECT_EQ(comm.gather_on_root(std::span<const float>(mine)), comm.rank() == 0 ? all : std::vector<float>());
}

TEST(Communicator, JoinsWhatRanksComeWithHoweverMuchItIs) {
  const Communicator comm(MPI_COMM_WORLD);
  const std::vector<Row> mine(static_cast<std::size_t>(comm.rank() % 3), Row{comm.rank(), 1});
  std::vector<Row> expected;
  for (int rank = 0; rank < comm.ranks() && comm.rank() == 0; ++rank)
    expected.insert(expected.end(), rank % 3, {rank, 1});
  EXPECT_EQ(comm.join_on_root(mine), expected);
}

TEST(Communicator, BroadcastsValuesTextsAndVectorsFromAnyRank) {
  const Communicator comm(MPI_COMM_WORLD);
  for (int root = 0; root < comm.ranks(); ++root) {
    const bool speaks = comm.rank() == root;
    EXPECT_EQ(comm.broadcast(speaks ? Row{root, 2} : Row{}, root), (Row{root, 2}));
    EXPECT_EQ(comm.broadcast(std::string(speaks ? "a text" : "of another length"), root), "a text");
    EXPECT_EQ(comm.broadcast(std::string(speaks ? "" : "x"), root), "");
    EXPECT_EQ(comm.broadcast(speaks ? std::vector<int>{1, 2, 3} : std::vector<int>{}, root),
              (std::vector<int>{1, 2, 3}));
  }
}

TEST(Communicator, MeansHaveTheSameBitsOnAllRanksAndOnRoot) {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<float> values(1001);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.1F * static_cast<float>(i) + static_cast<float>(comm.rank());
  }
  const std::vector<float> on_root = comm.mean_on_root(HostVector<const float>(values.data(), values.size()));
  comm.mean(HostVector<float>(values.data(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], 0.1 * static_cast<double>(i) + 0.5 * (comm.ranks() - 1), 1e-4);
  }
  EXPECT_EQ(comm.broadcast(values), values);
  ASSERT_EQ(on_root.size(), comm.rank() == 0 ? values.size() : 0U);
  for (std::size_t i = 0; i < on_root.size(); ++i) EXPECT_NEAR(on_root[i], values[i], 1e-4);
}

TEST(Communicator, SendsToOneRank) {
  const OwnedComm comm(MPI_COMM_WORLD);
  const int next = (comm.rank() + 1) % comm.ranks(), last = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  const std::array<int, 3> mine{comm.rank(), 5, 6};
  std::array<int, 3> come{};
  const auto send = [&] { comm.send(std::span<const int>(mine), next); };
  if (comm.ranks() == 1) return;
  if (comm.rank() == 0) send();
  comm.receive(std::span<int>(come), last);
  if (comm.rank() != 0) send();
  EXPECT_EQ(come, (std::array<int, 3>{last, 5, 6}));
}

TEST(Communicator, FailsOnAllRanksWithTheMessageOfTheLowestThatFailed) {
  const Communicator comm(MPI_COMM_WORLD);
  EXPECT_NO_THROW(comm.together([] {}));
  for (int first = 0; first < comm.ranks(); ++first) {
    try {
      comm.together([&] {
        if (comm.rank() >= first) fail("rank " + std::to_string(comm.rank()));
      });
      ADD_FAILURE() << "no exception";
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.what(), "rank " + std::to_string(first));
      EXPECT_TRUE(CollectiveError::exists());
    }
    EXPECT_FALSE(CollectiveError::exists());
  }
}

/// What is no Error, at any depth, is known as such on all ranks, and where it was.
TEST(Communicator, TellsWhoHasMetAnExceptionThatIsNoneOfThisProgram) {
  const Communicator comm(MPI_COMM_WORLD);
  const int last = comm.ranks() - 1;
  try {
    comm.together([&] {
      comm.together([&] {
        if (comm.rank() == last) throw std::bad_alloc();
      });
    });
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_EQ(foreign_of(error), comm.rank() == last ? Foreign::this_rank : Foreign::another_rank);
  }
  try {
    comm.together([] { fail("no"); });
    ADD_FAILURE() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_EQ(foreign_of(error), Foreign::no_rank);
  }
}

/// Others may wait for the ranks of a part, so that these do not unwind as if all did.
TEST(Communicator, ErrorsOfAPartOfTheRanksAreNotOfAll) {
  const Communicator comm(MPI_COMM_WORLD);
  const OwnedComm part = comm.split(comm.rank() == 0 ? 0 : 1);
  try {
    part.fail_together("failed");
    ADD_FAILURE() << "no exception";
  } catch (const CollectiveError& error) {
    EXPECT_EQ(error.what(), std::string("failed"));
    EXPECT_EQ(error.of_all_ranks(), comm.ranks() == 1);
    EXPECT_EQ(CollectiveError::exists(), comm.ranks() == 1);
  }
}

TEST(Communicator, WhatAPartThrowsTogetherIsThrownOnAllRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  const bool in_part = comm.rank() % 2 == 0;
  const OwnedComm part = comm.split(in_part ? 0 : 1);
  try {
    comm.together_in_parts([&] {
      if (in_part) part.fail_together(part.rank() == part.ranks() - 1 ? "failed" : "", Foreign::this_rank);
    });
    ADD_FAILURE() << "no exception";
  } catch (const CollectiveError& error) {
    EXPECT_EQ(error.what(), std::string("failed"));
    EXPECT_TRUE(error.of_all_ranks());
    EXPECT_NE(error.foreign(), Foreign::no_rank);
  }
}

/// The others of its part may wait in another call, which this rank would answer wrongly.
TEST(Communicator, WhatARankOfAPartThrowsAloneEndsItAlone) {
  const Communicator comm(MPI_COMM_WORLD);
  EXPECT_THROW(comm.together_in_parts([] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(Communicator, SplitsByColorInTheOrderOfTheKeys) {
  const Communicator comm(MPI_COMM_WORLD);
  const OwnedComm part = comm.split(comm.rank() % 2, -comm.rank());
  EXPECT_EQ(part.ranks(), (comm.ranks() + 1 - comm.rank() % 2) / 2);
  const std::vector<int> members = part.gather(comm.rank());
  for (const int member : members) EXPECT_EQ(member % 2, comm.rank() % 2);
  EXPECT_TRUE(std::is_sorted(members.rbegin(), members.rend()));
}

/// Whether MPI has freed a communicator: what is kept with it is deleted then.
class FreedSign {
 public:
  explicit FreedSign(bool& freed) : freed_(&freed) {}
  FreedSign(const FreedSign&) = delete;
  FreedSign& operator=(const FreedSign&) = delete;
  ~FreedSign() { *freed_ = true; }

 private:
  bool* freed_;
};

TEST(OwnedComm, IsFreedAtItsEndButNotWhileAnExceptionUnwindsTheRank) {
  bool freed = false, left = false;
  {
    const OwnedComm comm(MPI_COMM_WORLD);
    EXPECT_NE(comm.handle(), MPI_COMM_WORLD);
    kept_with(comm.handle(), [&] { return FreedSign(freed); });
  }
  EXPECT_TRUE(freed);
  try {
    const OwnedComm comm(MPI_COMM_WORLD);
    kept_with(comm.handle(), [&] { return FreedSign(left); });
    throw Error("this rank alone");
  } catch (const Error&) {
    EXPECT_FALSE(left);
  }
}

/// An object that is made and ends while an exception is under way ends in order.
TEST(OwnedComm, AnExceptionFromBeforeDoesNotCount) {
  static bool freed;
  freed = false;
  struct Cleaner {
    ~Cleaner() {
      const OwnedComm comm(MPI_COMM_WORLD);
      kept_with(comm.handle(), [] { return FreedSign(freed); });
    }
  };
  try {
    const Cleaner cleaner;
    throw Error("on all ranks");
  } catch (const Error&) {
    EXPECT_TRUE(freed);
  }
}

TEST(OwnedRequest, IsWaitedForAtItsEnd) {
  const OwnedComm comm(MPI_COMM_WORLD);
  int sum = 1;
  {
    OwnedRequest request;
    EXPECT_FALSE(request.is_under_way());
    MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm.handle(), request.start());
  }
  EXPECT_EQ(sum, comm.ranks());
}

TEST(OwnedWindow, ReachesTheMemoryOfAllRanks) {
  const OwnedComm comm(MPI_COMM_WORLD);
  const OwnedWindow none;
  EXPECT_FALSE(none);
  alignas(64) std::array<int, 32> memory{-1, -1};
  EXPECT_THROW(OwnedWindow::over(comm, &memory[1], sizeof(int)), CollectiveError);
  {
    const OwnedWindow window = OwnedWindow::over(comm, memory.data(), sizeof memory);
    EXPECT_EQ(static_cast<bool>(window), comm.ranks() > 1);
    if (!window) return;
    const int next = (comm.rank() + 1) % comm.ranks(), mine = comm.rank();
    MPI_Put(&mine, 1, MPI_INT, next, sizeof(int), 1, MPI_INT, window.handle());
    MPI_Win_flush(next, window.handle());
    comm.barrier();
    window.sync();
    EXPECT_EQ(memory[0], -1);
    EXPECT_EQ(memory[1], (comm.rank() + comm.ranks() - 1) % comm.ranks());
    comm.barrier();
  }
}

TEST(NodeMemory, IsReachedByAllRanksOfTheNode) {
  const Communicator comm(MPI_COMM_WORLD), node = comm.node();
  const auto length_of = [](int rank) { return static_cast<std::size_t>(1 + 5000 * rank); };
  const NodeMemory memory(comm, length_of(node.rank()) * sizeof(int));
  const auto values_of = [&](int rank) { return std::span(static_cast<int*>(memory.of(rank)), length_of(rank)); };
  std::ranges::fill(values_of(node.rank()), 100 + node.rank());
  node.barrier();
  for (int rank = 0; rank < node.ranks(); ++rank) {
    for (const int value : values_of(rank)) ASSERT_EQ(value, 100 + rank);
  }
  node.barrier();
}

TEST(SharedFile, HasANameOnlyUntilOthersHaveOpenedIt) {
  EXPECT_FALSE(SharedFile(0).is_open());
  std::optional<SharedFile> made(std::in_place);
  ASSERT_TRUE(made->is_open());
  const std::uint64_t key = made->key();
  const SharedFile opened(key), again(key);
  ASSERT_TRUE(opened.is_open() && again.is_open());
  EXPECT_EQ(opened.key(), 0U);
  made.reset();
  EXPECT_FALSE(SharedFile(key).is_open());
  ASSERT_TRUE(opened.allocate(10000));
  const MappedMemory there = opened.map(), here = again.map();
  ASSERT_TRUE(there && here);
  static_cast<char*>(there.get())[9999] = 'x';
  EXPECT_EQ(static_cast<char*>(here.get())[9999], 'x');
  EXPECT_EQ(static_cast<char*>(here.get())[0], 0);
}

}  // namespace
}  // namespace halograd::communicator_mpi_test
