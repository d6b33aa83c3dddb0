#include "window/deck.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::deck_mpi_test {
namespace {

class DeckTest : public testing::Test {
 protected:
  Communicator comm_{MPI_COMM_WORLD};
  std::vector<std::int64_t> mine_;

  /// Draws all that there is; every `slow`-th rank takes longer for a lot, as a slow rank would.
  void draw_all(Deck& deck, int slow = 2) {
    while (const auto lot = deck.draw()) {
      mine_.push_back(*lot);
      if (comm_.rank() % slow == 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  /// What all ranks have drawn, in ascending order, on rank 0.
  [[nodiscard]] std::vector<std::int64_t> all() const {
    std::vector<std::int64_t> lots = comm_.join_on_root(mine_);
    std::sort(lots.begin(), lots.end());
    return lots;
  }
};

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}

TEST_F(DeckTest, DealsEachLotOnceInOrder) {
  const std::int64_t ranks = comm_.ranks(), epoch = 50 * ranks;
  Deck deck(comm_, {.first = 7 * ranks, .lots = 3 * epoch, .epoch_lots = epoch, .step_lots = ranks});
  draw_all(deck);
  EXPECT_TRUE(std::is_sorted(mine_.begin(), mine_.end()));
  EXPECT_EQ(deck.draw(), std::nullopt);
  EXPECT_EQ(deck.limit(), 3 * epoch);
  const auto lots = all();
  if (comm_.rank() == 0) {
    EXPECT_EQ(lots, range(7 * ranks, 3 * epoch));
  }
}

TEST_F(DeckTest, DealsChunksThatLieInOneEpoch) {
  const std::int64_t ranks = comm_.ranks(), epoch = 50 * ranks, chunk = 7;
  Deck deck(comm_, {.first = 3 * ranks, .lots = 2 * epoch, .epoch_lots = epoch, .chunk = chunk, .step_lots = ranks});
  draw_all(deck);
  for (std::size_t i = 1; i < mine_.size(); ++i) {
    const bool starts_a_chunk = mine_[i] % epoch % chunk == 0;
    if (!starts_a_chunk) {
      EXPECT_EQ(mine_[i], mine_[i - 1] + 1);
    }
  }
  const auto lots = all();
  if (comm_.rank() == 0) {
    EXPECT_EQ(lots, range(3 * ranks, 2 * epoch));
  }
}

TEST_F(DeckTest, EndsOnAWholeStepWithAllLotsBelowItDealt) {
  const std::int64_t ranks = comm_.ranks(), epoch = 1000 * ranks;
  Deck deck(comm_, {.lots = 10 * epoch, .epoch_lots = epoch, .step_lots = ranks});
  const int ender = comm_.ranks() - 1;
  while (const auto lot = deck.draw()) {
    mine_.push_back(*lot);
    if (comm_.rank() == ender && mine_.size() == 5) deck.end();
    if (comm_.rank() == 0 && mine_.size() == 9) deck.end();  // the first end counts
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const std::int64_t limit = deck.limit();
  EXPECT_EQ(comm_.smallest(limit), comm_.largest(limit));
  EXPECT_EQ(limit % ranks, 0);
  EXPECT_LT(limit, 10 * epoch);
  const auto lots = all();
  if (comm_.rank() == 0) {
    EXPECT_EQ(lots, range(0, limit));
  }
}

TEST_F(DeckTest, AnEndTakesChunksOutOfHand) {
  const std::int64_t ranks = comm_.ranks(), epoch = 1000 * ranks;
  constexpr std::int64_t chunk = 7;
  Deck deck(comm_, {.lots = epoch, .epoch_lots = epoch, .chunk = chunk, .step_lots = ranks});
  for (std::int64_t lots = comm_.rank() == 0 ? chunk + 1 : 1; lots > 0; --lots) ASSERT_TRUE(deck.draw());
  comm_.barrier();
  if (comm_.rank() == 0) deck.end();
  comm_.barrier();
  EXPECT_EQ(deck.draw(), std::nullopt);
  EXPECT_EQ(deck.draw(), std::nullopt);
  EXPECT_EQ(deck.limit(), (chunk * (ranks + 1) + ranks - 1) / ranks * ranks);
}

TEST_F(DeckTest, WhoDrawsALotAboveAMarkKnowsOfIt) {
  const std::int64_t ranks = comm_.ranks(), epoch = 100000000 * ranks, first = 2 * ranks;
  for (const std::int64_t chunk : {1, 7}) {
    Deck deck(comm_, {.first = first, .lots = epoch, .epoch_lots = epoch, .chunk = chunk, .step_lots = ranks});
    std::int64_t before = first, mark = 0;
    for (int marks = 0; marks < 5; ++marks) {
      const std::int64_t known = deck.marked();
      for (int drawn = 0; deck.marked() == known; ++drawn) {
        if (comm_.rank() == 0 && drawn == 5) mark = deck.mark();
        mine_.push_back(deck.draw().value());
        std::this_thread::sleep_for(std::chrono::microseconds(100 * (comm_.rank() % 3)));
        if (deck.marked() == known) before = mine_.back();
      }
      EXPECT_EQ(deck.marked() % ranks, 0);
      EXPECT_LT(before, deck.marked()) << "drawn without knowing";
      EXPECT_EQ(comm_.smallest(deck.marked()), comm_.largest(deck.marked()));
      while (mine_.back() < deck.marked()) mine_.push_back(deck.draw().value());
      comm_.barrier();  // as marks ask for
      if (comm_.rank() == 0) {
        EXPECT_EQ(mark, deck.marked());
      }
    }
    if (comm_.rank() == 0) {
      EXPECT_GE(deck.mark(), 0);
      deck.end();
    }
    while (const auto lot = deck.draw()) mine_.push_back(*lot);
    EXPECT_EQ(comm_.smallest(deck.limit()), comm_.largest(deck.limit()));
    EXPECT_EQ(comm_.smallest(deck.marked()), comm_.largest(deck.marked()));
    EXPECT_LE(deck.marked(), deck.limit());
    mine_.clear();
  }
}

/// Groups of two ranks, of which the last may have one.
class GroupDeckTest : public DeckTest {
 protected:
  OwnedComm group_{comm_.split(comm_.rank() / 2)};
  std::int64_t groups_ = (comm_.ranks() + 1) / 2;

  void expect_same_in_group() {
    EXPECT_EQ(group_.broadcast(mine_), mine_);
    if (group_.rank() != 0) mine_.clear();
  }
};

TEST_F(GroupDeckTest, AllRanksOfAGroupGetItsLotsAndLearnOfMarksWithThem) {
  const std::int64_t epoch = 50 * groups_, first = 2 * groups_;
  for (const std::int64_t chunk : {1, 7}) {
    Deck deck(comm_, {.first = first, .lots = 2 * epoch, .epoch_lots = epoch, .chunk = chunk, .step_lots = groups_}, 30,
              &group_);
    std::int64_t mark = 0;
    std::vector<std::int64_t> known;
    while (const auto lot = deck.draw()) {
      mine_.push_back(*lot);
      known.push_back(deck.marked());
      if (mine_.size() > 1) continue;
      if (comm_.rank() == 0) mark = deck.mark();
      comm_.barrier();
    }
    known.push_back(deck.marked());
    comm_.broadcast(std::span(&mark, 1));
    EXPECT_GT(mark, 0);
    for (std::size_t i = 0; i < mine_.size(); ++i) {
      if (mine_[i] >= mark) {
        EXPECT_EQ(known[i], mark);
      }
    }
    EXPECT_EQ(known.back(), mark);
    EXPECT_EQ(group_.broadcast(known), known);
    EXPECT_EQ(deck.limit(), 2 * epoch);
    expect_same_in_group();
    const auto lots = all();
    if (comm_.rank() == 0) {
      EXPECT_EQ(lots, range(first, 2 * epoch));
    }
    mine_.clear();
  }
}

TEST_F(GroupDeckTest, AnyRankOfAGroupEndsTheDealing) {
  const std::int64_t epoch = 1000 * groups_;
  Deck deck(comm_, {.lots = 10 * epoch, .epoch_lots = epoch, .step_lots = groups_}, 30, &group_);
  while (const auto lot = deck.draw()) {
    mine_.push_back(*lot);
    if (comm_.rank() == comm_.ranks() - 1 && mine_.size() == 5) deck.end();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const std::int64_t limit = deck.limit();
  EXPECT_EQ(comm_.smallest(limit), comm_.largest(limit));
  EXPECT_LT(limit, 10 * epoch);
  expect_same_in_group();
  const auto lots = all();
  if (comm_.rank() == 0) {
    EXPECT_EQ(lots, range(0, limit));
  }
}

TEST_F(GroupDeckTest, WhoLeavesDoesNotWaitForTheFirstOfItsGroup) {
  Deck deck(comm_, {.lots = 10 * groups_, .epoch_lots = groups_, .step_lots = groups_}, 30, &group_);
  if (group_.rank() == 0) return;
  std::optional<std::int64_t> lot = 0;
  std::thread waiting([&] { lot = deck.draw(); });
  deck.leave();
  waiting.join();
  EXPECT_EQ(lot, std::nullopt);
}

TEST_F(DeckTest, RefusesNumbersThatDoNotFit) {
  EXPECT_THROW(Deck(comm_, {.lots = 10, .epoch_lots = 3}), Error);
  EXPECT_THROW(Deck(comm_, {.lots = 10, .epoch_lots = 5, .step_lots = 2}), Error);
  const std::int64_t many = std::int64_t{1} << 40;
  EXPECT_THROW(Deck(comm_, {.lots = many, .epoch_lots = many}), Error);
}

}  // namespace
}  // namespace halograd::deck_mpi_test
