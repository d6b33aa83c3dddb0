#include "mpi/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/random.hpp"
#include "tests/mpi/ranks.hpp"

namespace halograd::agreement_mpi_test {
namespace {

/// Steps of uneven length until something is agreed; the step at which it was, and what.
struct Outcome {
  int step = 0;
  int answer = 0;
  bool operator==(const Outcome&) const = default;
};

/// `asks(step)`: what this rank asks for after a step.
template <class Asks>
Outcome run(const Asks& asks, int steps, std::uint64_t seed) {
  Agreement agreement(MPI_COMM_WORLD);
  for (int step = 1; step <= steps; ++step) {
    const auto mine = static_cast<std::uint64_t>(this_rank() * 1000 + step);
    std::this_thread::sleep_for(std::chrono::microseconds(random_bits(seed, mine) % 400));
    const int answer = agreement.at_boundary(asks(step));
    if (answer != 0) return {step, answer};
  }
  return {};
}

/// The outcome of all ranks, which must be one.
Outcome same_on_all(const Outcome& mine) {
  std::vector<Outcome> all(static_cast<std::size_t>(all_ranks()));
  MPI_Allgather(&mine, 2, MPI_INT, all.data(), 2, MPI_INT, MPI_COMM_WORLD);
  for (const Outcome& other : all) EXPECT_TRUE(other == all[0]) << "steps " << other.step << " and " << all[0].step;
  return mine;
}

TEST(Agreement, WhatOneRankAsksForComesToAllAtTheSameStep) {
  for (int trial = 0; trial < 24; ++trial) {
    const int asker = trial % all_ranks(), first = 1 + trial * 7 % 150;
    const auto asks = [&](int step) { return this_rank() == asker && step >= first ? 3 : 0; };
    const Outcome outcome = same_on_all(run(asks, 1000, 17U + static_cast<unsigned>(trial)));
    EXPECT_EQ(outcome.answer, 3);
    EXPECT_GE(outcome.step, first);
    EXPECT_LE(outcome.step, first + 2 * Agreement::most_lag);
  }
}

/// As long as nobody knows how long a step is.
TEST(Agreement, ComesWithinFewOfTheFirstSteps) {
  const auto asks = [](int step) { return step < 2 ? 0 : 3; };
  EXPECT_LE(same_on_all(run(asks, 1000, 3)).step, 2 + 2 * Agreement::least_lag);
}

TEST(Agreement, TheLargestCounts) {
  const auto asks = [](int step) { return step < 20 ? 0 : 1 + this_rank(); };
  EXPECT_EQ(same_on_all(run(asks, 1000, 5)).answer, all_ranks());
}

TEST(Agreement, NothingAskedForIsNothingAgreed) {
  EXPECT_EQ(run([](int) { return 0; }, 300, 9), Outcome{});
}

TEST(Agreement, NowAsksAllRanksWhileAReductionIsUnderWay) {
  Agreement agreement(MPI_COMM_WORLD);
  for (int step = 0; step < 10; ++step) {
    const int answer = agreement.at_boundary(0);
    EXPECT_EQ(answer, 0);
    EXPECT_EQ(agreement.now(this_rank() == all_ranks() - 1 ? step : 0), step);
  }
}

/// A rank that waited for the others would wait for ever: they only begin when it is done.
TEST(Agreement, ARankMayBeFarAhead) {
  Agreement agreement(MPI_COMM_WORLD);
  const bool ahead = this_rank() == 0;
  if (!ahead) MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 0; step < Agreement::least_lag; ++step) EXPECT_EQ(agreement.at_boundary(0), 0);
  if (ahead) MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace halograd::agreement_mpi_test
