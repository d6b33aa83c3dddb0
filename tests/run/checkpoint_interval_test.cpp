#include "run/checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace halograd::checkpoint_interval_test {
namespace {

/// Where the model's derivative is 0: exp((t + C) / M) (1 - t / M) = 1, by bisection.
double exact_optimum(double cost, double mttf) {
  double low = 0, high = mttf;
  for (int i = 0; i < 200; ++i) {
    const double t = (low + high) / 2;
    (std::exp((t + cost) / mttf) * (1 - t / mttf) > 1 ? low : high) = t;
  }
  return low;
}

TEST(CheckpointInterval, FormulaeByHand) {
  // 5 minutes a day: Young sqrt(2 * 5 * 1440) = 120; Daly 120 (1 + (1/24) / 3 + (1/576) / 9) - 5.
  EXPECT_DOUBLE_EQ(young_interval(5, 1440), 120);
  EXPECT_NEAR(daly_interval(5, 1440), 116.689815, 1e-6);
  EXPECT_DOUBLE_EQ(daly_interval(20, 10), 10);
  EXPECT_DOUBLE_EQ(daly_interval(50, 10), 10);
}

TEST(CheckpointInterval, DalyIsNearTheModelsOptimum) {
  for (const auto& [cost, within] : {std::pair(0.001, 1e-5), std::pair(0.01, 1e-4), std::pair(0.1, 2e-3)}) {
    const double best = exact_optimum(cost, 1);
    EXPECT_NEAR(daly_interval(cost, 1), best, within * best) << cost;
    EXPECT_GT(std::abs(young_interval(cost, 1) - best), within * best) << cost;  // Young's is not
    for (const double other : {0.9 * best, 1.1 * best}) {
      EXPECT_LT(lost_share(best, cost, 0.02, 1), lost_share(other, cost, 0.02, 1)) << cost;
    }
  }
}

TEST(CheckpointInterval, LostShareOfRareFailures) {
  // To first order: a checkpoint per interval; half of both, and a restart, per failure.
  EXPECT_NEAR(lost_share(60, 1, 30, 1e6), 1.0 / 61 + 60.0 / 61 * (61.0 / 2 + 30) / 1e6, 1e-8);
}

/// Plays it: a failure strikes at any time, also during restarts, and costs what was done since the last checkpoint.
TEST(CheckpointInterval, LostShareOfPlayedFailures) {
  constexpr double cost = 2, restart = 5, mttf = 60, interval = 15;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> life(1 / mttf);
  double time = 0, left = life(random);
  constexpr int intervals = 400000;
  for (int done = 0; done < intervals;) {
    const double needed = interval + cost;
    if (left >= needed) {
      left -= needed;
      time += needed;
      ++done;
      continue;
    }
    time += left;
    left = life(random);
    while (left < restart) {
      time += left;
      left = life(random);
    }
    left -= restart;
    time += restart;
  }
  EXPECT_NEAR(lost_share(interval, cost, restart, mttf), 1 - intervals * interval / time, 0.003);
}

}  // namespace
}  // namespace halograd::checkpoint_interval_test
