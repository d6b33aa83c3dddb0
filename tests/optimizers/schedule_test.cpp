#include "optimizers/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"

namespace halograd::schedule_test {
namespace {

ScheduleConfig named(const std::string& name) {
  ScheduleConfig config;
  config.name = name;
  return config;
}

TEST(Schedule, ConstantStaysAtOne) {
  EXPECT_EQ(schedule_factor(named("constant"), 0, 10, 3), 1);
  EXPECT_EQ(schedule_factor(named("constant"), 29, 10, 3), 1);
}

TEST(Schedule, StepFallsAtItsMilestones) {
  ScheduleConfig config = named("step");
  config.milestones = {1, 2.5};
  config.gamma = 0.5;
  EXPECT_EQ(schedule_factor(config, 9, 10, 3), 1);
  EXPECT_EQ(schedule_factor(config, 10, 10, 3), 0.5);
  EXPECT_EQ(schedule_factor(config, 24, 10, 3), 0.5);
  EXPECT_EQ(schedule_factor(config, 25, 10, 3), 0.25);
}

TEST(Schedule, CosineMatchesItsFormula) {
  ScheduleConfig config = named("cosine");
  config.final_factor = 0.1;
  for (int step = 0; step < 30; ++step) {
    EXPECT_NEAR(schedule_factor(config, step, 10, 3), 0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) * step / 30)),
                1e-12);
  }
}

TEST(Schedule, WarmupRisesLinearlyToTheSchedulesStart) {
  ScheduleConfig config = named("cosine");
  config.warmup_epochs = 0.5;
  for (int step = 0; step < 5; ++step) EXPECT_NEAR(schedule_factor(config, step, 10, 3), (step + 1) / 6.0, 1e-12);
  EXPECT_EQ(schedule_factor(config, 5, 10, 3), 1);
  EXPECT_NEAR(schedule_factor(config, 29, 10, 3), 0.5 * (1 + std::cos(std::acos(-1.0) * 24 / 25)), 1e-12);
}

TEST(Schedule, UnknownNameIsRefused) {
  EXPECT_THROW(schedule_factor(named("cosin"), 0, 1, 1), Error);
}

}  // namespace
}  // namespace halograd::schedule_test
