// The ways of summing over all ranks, beside plain sums.
#include "window/all_reduce.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mpi/wait.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/progress_thread.hpp"

namespace halograd::all_reduce_mpi_test {
namespace {

/// A way to sum, and its largest error as a share of the sum of the values' sizes.
struct Way {
  std::string name;
  std::unique_ptr<AllReduce> (*make)(const Communicator&);
  double rounding;
};

constexpr double most_seconds = 60;  // of a sum

class AllReduceTest : public testing::TestWithParam<Way> {
 protected:
  AllReduceTest() : all_reduce_(GetParam().make(comm_)) {}

  void finish(std::int64_t number) {
    PolitePause pause;
    while (!all_reduce_->has_ended(number) && pause.seconds() < most_seconds) pause();
    ASSERT_TRUE(all_reduce_->has_ended(number));
  }

  void expect_sum(const std::vector<float>& values) const;

  Communicator comm_{MPI_COMM_WORLD};
  std::unique_ptr<AllReduce> all_reduce_;
};

HostVector<float> view(std::vector<float>& values) {
  return HostVector<float>(values.data(), values.size());
}

constexpr std::size_t period = 1009;  // after which values come again

/// Whole numbers that floats add up without an error.
float value(int rank, std::size_t i) {
  return static_cast<float>((i * 31 + static_cast<std::size_t>(rank) * 17) % period);
}

std::vector<float> values_of(int rank, std::size_t length) {
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) values[i] = value(rank, i);
  return values;
}

std::vector<float> plain_sum(std::size_t length) {
  std::vector<float> of_a_period(period), sum(length);
  for (int rank = 0; rank < all_ranks(); ++rank) {
    for (std::size_t i = 0; i < period; ++i) of_a_period[i] += value(rank, i);
  }
  for (std::size_t i = 0; i < length; ++i) sum[i] = of_a_period[i % period];
  return sum;
}

/// The values are not negative: no partial sum is larger than the whole.
void AllReduceTest::expect_sum(const std::vector<float>& values) const {
  const std::vector<float> expected = plain_sum(values.size());
  const double rounding = all_ranks() > 1 ? std::pow(1 + GetParam().rounding, all_ranks()) - 1 : 0;
  long wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i] - expected[i]) <= rounding * expected[i])) ++wrong;
  }
  EXPECT_EQ(wrong, 0) << "of " << values.size() << " values";
}

// Fewer values than ranks, lengths that no number of ranks divides, and several pieces with a rest.
const std::vector<std::size_t> lengths{1, 5, 0, 1009, 131'101, 2'600'003, 7};

TEST_P(AllReduceTest, OfOneLengthAfterAnother) {
  for (const std::size_t length : lengths) {
    std::vector<float> values = values_of(this_rank(), length);
    finish(all_reduce_->start(view(values)));
    expect_sum(values);
  }
}

TEST_P(AllReduceTest, OfSeveralAtATimeEndInTheirOrder) {
  std::vector<std::vector<float>> values;
  std::vector<std::int64_t> numbers;
  for (const std::size_t length : lengths) values.push_back(values_of(this_rank(), length));
  for (std::vector<float>& each : values) numbers.push_back(all_reduce_->start(view(each)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    finish(numbers[i]);
    expect_sum(values[i]);
  }
}

TEST_P(AllReduceTest, GivesAllRanksTheSameBitsInEachRun) {
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    std::vector<float> values = values_of(this_rank(), 300'007);
    for (float& each : values) each = 1 / (each + 0.7F);
    const std::unique_ptr<ProgressThread> progress = run == 1 ? std::make_unique<ProgressThread>(comm_, 50) : nullptr;
    // Ranks begin in another order each time, with a thread that moves sums on beside them and without.
    std::this_thread::sleep_for(std::chrono::milliseconds(5) * ((this_rank() * 7 + run * 5) % all_ranks()));
    finish(all_reduce_->start(view(values)));
    if (run == 0) {
      first = values;
      comm_.broadcast(std::span(first));
    }
    EXPECT_TRUE(values == first);
  }
}

TEST_P(AllReduceTest, ReportsAWaitOnceWithTheRankThatIsLate) {
  if (all_ranks() == 1) return;
  constexpr double report_seconds = 0.01;
  double number = 0;
  if (this_rank() == 0) {  // begins when all others have waited for too long
    for (int rank = 1; rank < all_ranks(); ++rank) comm_.receive(std::span(&number, 1), rank);
  }
  testing::internal::CaptureStderr();
  std::vector<float> values = values_of(this_rank(), 131'101);
  const std::int64_t sum = all_reduce_->start(view(values));
  const PolitePause time;
  bool told = this_rank() == 0;
  const auto has_ended = [&] {
    if (!told && time.seconds() > 2 * report_seconds) {
      comm_.send(std::span<const double>(&number, 1), 0);
      told = true;
    }
    return all_reduce_->has_ended(sum);
  };
  const double waited = all_reduce_->wait_until(has_ended, report_seconds);
  const std::string said = testing::internal::GetCapturedStderr();
  const bool by_mpi = GetParam().name == "Mpi", names_it = said.find(" waits for rank 0: a sum") != std::string::npos;
  EXPECT_EQ(comm_.largest(names_it ? 1 : 0), by_mpi ? 0 : 1) << "the next one in a ring names it";
  expect_sum(values);
  if (this_rank() == 0) return;
  EXPECT_GT(waited, report_seconds);
  const std::string begin = "rank " + std::to_string(this_rank()) + " waits for ";
  EXPECT_EQ(said.find(begin + (by_mpi ? "the others: a sum" : "rank ")), 0U) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, AllReduceTest,
    testing::Values(Way{"Mpi", make_mpi_all_reduce, 0},
                    Way{"Ring", [](const Communicator& comm) { return make_ring_all_reduce(comm); }, 0},
                    Way{"ByLength", [](const Communicator& comm) { return make_all_reduce_by_length(comm); }, 0},
                    Way{"RingOfBf16", [](const Communicator& comm) { return make_ring_all_reduce(comm, Travel::bf16); },
                        1.0 / 256}),
    [](const auto& way) { return way.param.name; });

TEST(AllReduceBytes, AreHalfWhereLongSumsTravelAsBf16) {
  EXPECT_EQ(all_reduce_bytes(1, 1000), 0);
  EXPECT_EQ(all_reduce_bytes(4, 1'000'000), 6'000'000);
  EXPECT_EQ(all_reduce_bytes(4, 1'000'000, Travel::bf16), 3'000'000);
  EXPECT_EQ(all_reduce_bytes(4, 1000, Travel::bf16), 6000) << "short ones go by MPI, as floats";
}

/// What another thread may be writing: no sanitizer need know.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) float glance(const float& value) {
  return *const_cast<const volatile float*>(&value);
}

TEST(RingAllReduce, IsMovedOnByAProgressThread) {
  const Communicator comm(MPI_COMM_WORLD);
  const auto all_reduce = make_ring_all_reduce(comm);
  const ProgressThread progress(comm, 50);
  const std::size_t length = 100'003;
  std::vector<float> values(length, 1);
  const std::int64_t number = all_reduce->start(view(values));
  PolitePause pause;
  while (glance(values.back()) != static_cast<float>(all_ranks()) && pause.seconds() < most_seconds) pause();
  EXPECT_EQ(glance(values.back()), static_cast<float>(all_ranks()));
  while (!all_reduce->has_ended(number) && pause.seconds() < 2 * most_seconds) pause();
  EXPECT_TRUE(all_reduce->has_ended(number));
}

}  // namespace
}  // namespace halograd::all_reduce_mpi_test
