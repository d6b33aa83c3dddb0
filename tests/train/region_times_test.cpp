#include "train/region_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "kernels/error.hpp"
#include "kernels/region.hpp"

namespace halograd::region_times_test {
namespace {

void sleep_milliseconds(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(RegionTimes, TimeGoesToTheInnermostOpenRegion) {
  RegionTimes times;
  for (int step = 0; step < 2; ++step) {
    {
      const Region backward("backward");
      {
        const Region layer("conv1");
        const Region data("data");
        sleep_milliseconds(20);
      }
      sleep_milliseconds(10);
    }
    times.end_step();
  }
  ASSERT_EQ(times.entries().size(), 3U);
  const auto& backward = times.entries()[0];
  const auto& layer = times.entries()[1];
  const auto& data = times.entries()[2];
  EXPECT_EQ(backward.path, "backward");
  EXPECT_EQ(backward.parent, -1);
  EXPECT_EQ(layer.path, "backward/conv1");
  EXPECT_EQ(data.path, "backward/conv1/data");
  EXPECT_EQ(data.name, "data");
  EXPECT_EQ(data.parent, 1);
  ASSERT_EQ(data.seconds.size(), 2U);
  for (int step = 0; step < 2; ++step) {  // sleeps last at least as long as asked
    EXPECT_GE(data.seconds[step], 0.020);
    EXPECT_GE(backward.seconds[step], 0.010);
    EXPECT_LT(layer.seconds[step], data.seconds[step]);
  }
}

TEST(RegionTimes, ARegionThatComesLaterHasNoTimeBefore) {
  RegionTimes times;
  times.end_step();
  {
    const Region late("late");
    sleep_milliseconds(5);
  }
  times.end_step();
  times.end_step();
  ASSERT_EQ(times.entries().size(), 1U);
  ASSERT_EQ(times.entries()[0].seconds.size(), 3U);
  EXPECT_EQ(times.entries()[0].seconds[0], 0);
  EXPECT_GE(times.entries()[0].seconds[1], 0.005);
  EXPECT_EQ(times.entries()[0].seconds[2], 0);
}

TEST(RegionTimes, NobodyListensAfterwardsAndOnlyOneAtATime) {
  {
    const RegionTimes times;
    EXPECT_THROW(RegionTimes(), Error);
  }
  const Region unheard("unheard");
}

}  // namespace
}  // namespace halograd::region_times_test
