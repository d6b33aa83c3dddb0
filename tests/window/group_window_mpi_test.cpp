// Messages between the ranks of a group: each arrives whole, in order, by stores and between nodes.
#include "window/group_window.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::group_window_mpi_test {
namespace {

constexpr std::size_t longest = 3000;

/// [from][to]: different for each pair of ranks; some exchange nothing.
std::vector<std::vector<std::size_t>> lengths() {
  const auto ranks = static_cast<std::size_t>(all_ranks());
  std::vector<std::vector<std::size_t>> all(ranks, std::vector<std::size_t>(ranks));
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      if (from != to && (from + 2 * to) % 3 != 0) all[from][to] = longest / (1 + from + to);
    }
  }
  return all;
}

float payload(int from, int to, int number, std::size_t i) {
  return random_uniform(static_cast<std::uint64_t>((from * 64 + to) * 1000 + number), i);
}

void send(GroupWindow& window, int to, int number, std::size_t length) {
  const HostVector<float> room = window.room(to, length);
  for (std::size_t i = 0; i < room.extent(0); ++i) room(i) = payload(window.rank(), to, number, i);
  window.post(to);
}

long wrong_values(const GroupWindow& window, HostVector<const float> values, int from, int number) {
  long wrong = 0;
  for (std::size_t i = 0; i < values.extent(0); ++i)
    wrong += values(i) != payload(from, window.rank(), number, i) ? 1 : 0;
  return wrong;
}

class GroupWindowTest : public testing::TestWithParam<const char*> {
 protected:
  GroupWindowTest() {
    const std::string way = GetParam();
    options_.force_put = way != "stores";
    if (way == "messages") options_.carrier = Carrier::send;
  }
  Communicator comm_{MPI_COMM_WORLD};
  TransportOptions options_;
};

TEST_P(GroupWindowTest, MessagesArriveWholeAndInOrder) {
  const std::vector<std::vector<std::size_t>> all = lengths();
  GroupWindow window(comm_, options_);
  for (int from = 0; from < comm_.ranks(); ++from) {
    for (int to = 0; to < comm_.ranks(); ++to) window.expect_message(from, to, all[from][to]);
  }
  window.open();
  const int rank = comm_.rank();
  for (int number = 0; number < 20; ++number) {
    // Some are shorter than the longest one may be, and some ranks send two before any is read.
    const auto length = [&](int from, int to) { return all[from][to] - (all[from][to] > 0 ? number % 7 : 0); };
    for (int to = 0; to < comm_.ranks(); ++to) {
      if (all[rank][to] > 0) send(window, to, number, length(rank, to));
    }
    window.flush();
    for (int from = 0; from < comm_.ranks(); ++from) {
      if (all[from][rank] == 0) continue;
      EXPECT_EQ(wrong_values(window, window.receive(from, length(from, rank)), from, number), 0)
          << "message " << number << " from rank " << from;
      window.release(from);
    }
  }
}

TEST_P(GroupWindowTest, AFastSenderCannotOverwriteWhatIsUnread) {
  GroupWindow window(comm_, options_);
  for (int to = 1; to < comm_.ranks(); ++to) window.expect_message(0, to, longest);
  window.open();
  for (int number = 0; number < 10; ++number) {
    for (int to = 1; window.rank() == 0 && to < comm_.ranks(); ++to) send(window, to, number, longest);
    window.flush();
    if (window.rank() == 0) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(wrong_values(window, window.receive(0, longest), 0, number), 0) << "message " << number;
    window.release(0);
  }
}

TEST_P(GroupWindowTest, SumsAreTheSameOnAllRanks) {
  constexpr std::size_t count = 37;
  GroupWindow window(comm_, options_);
  window.expect_sum(count);
  window.open();
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<double> numbers(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int rank = 0; rank < comm_.ranks(); ++rank) {
        const double term = 1.0 / (1 + static_cast<double>(i) + 10.0 * rank + repeat);
        expected[i] += term;
        if (rank == comm_.rank()) numbers[i] = term;
      }
    }
    window.sum(HostVector<double>(numbers.data(), count));
    EXPECT_EQ(numbers, expected);
  }
}

TEST(Shards, CoverAllOnceAndCanBeCutAlike) {
  for (const int ranks : {2, 3, 7, 8}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{5}, GroupWindow::cut + 1, GroupWindow::cut * 13 + 7}) {
      std::size_t end = 0;
      const std::size_t most = GroupWindow::shard(count, 0, ranks).length,
                        cuts = std::max<std::size_t>(1, (most + GroupWindow::cut - 1) / GroupWindow::cut);
      EXPECT_EQ(most % cuts, 0U) << count << " of " << ranks << " ranks";
      for (int rank = 0; rank < ranks; ++rank) {
        const GroupWindow::Shard shard = GroupWindow::shard(count, rank, ranks);
        EXPECT_EQ(shard.begin, end);
        EXPECT_TRUE(shard.length == most || shard.begin + shard.length == count);
        end += shard.length;
      }
      EXPECT_EQ(end, count);
    }
  }
}

// In pieces: fewer floats than ranks, and several pieces with a rest.
TEST_P(GroupWindowTest, ManyFloatsAreSummedAndGathered) {
  const int ranks = all_ranks();
  for (const std::size_t count : {std::size_t{3}, GroupWindow::piece * static_cast<std::size_t>(2 * ranks) + 5}) {
    GroupWindow window(comm_, options_);
    window.expect_shards(count);
    window.open();
    const auto whole = [](int rank, std::size_t i) { return static_cast<float>((i * 31 + 17 * (1UL + rank)) % 1009); };
    std::vector<float> values(count), sums(count), gathered(count);
    const GroupWindow::Shard own = GroupWindow::shard(count, comm_.rank(), ranks);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = sums[i] = whole(comm_.rank(), i);
      if (i < own.begin || i >= own.begin + own.length) continue;
      for (int rank = 0; rank < ranks; ++rank) sums[i] += rank == comm_.rank() ? 0 : whole(rank, i);
    }
    window.sum_shards(HostVector<float>(values.data(), count));
    EXPECT_TRUE(values == sums);
    for (int rank = 0; rank < ranks; ++rank) {
      const GroupWindow::Shard shard = GroupWindow::shard(count, rank, ranks);
      for (std::size_t i = shard.begin; i < shard.begin + shard.length; ++i) {
        gathered[i] = whole(rank, i);
        values[i] = rank == comm_.rank() ? gathered[i] : -1;
      }
    }
    window.gather(HostVector<float>(values.data(), count));
    EXPECT_TRUE(values == gathered);
  }
}

TEST_P(GroupWindowTest, TooLongMessagesAreRefused) {
  GroupWindow window(comm_, options_);
  for (int from = 0; from < comm_.ranks(); ++from) {
    for (int to = 0; to < comm_.ranks(); ++to) window.expect_message(from, to, 3);
  }
  window.open();
  EXPECT_THROW(window.room(0, 4), Error);
}

INSTANTIATE_TEST_SUITE_P(By, GroupWindowTest, testing::Values("stores", "puts", "messages"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace halograd::group_window_mpi_test
