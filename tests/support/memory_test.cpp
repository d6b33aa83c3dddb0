#include "support/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/error.hpp"

namespace halograd::memory_test {
namespace {

constexpr std::size_t chunk = 64U << 20U;  // far beyond what comes and goes unasked

TEST(Memory, PeakKeepsWhatWasGivenBack) {
  restart_peak_memory();
  const double before = peak_memory();
  EXPECT_GT(before, 1e6);
  {
    std::vector<char> touched(chunk, 1);
    char* volatile kept = touched.data();  // a compiler may leave out memory that nobody reads
    EXPECT_EQ(kept[chunk - 1], 1);
  }
  const double after = peak_memory();
  EXPECT_GE(after, before + 0.9 * static_cast<double>(chunk));
  restart_peak_memory();
  EXPECT_LT(peak_memory(), after - 0.5 * static_cast<double>(chunk));
}

TEST(Memory, AvailableIsBelowWhatAnyMachineHas) {
  const double available = available_memory();
  EXPECT_GT(available, 1e6);
  EXPECT_TRUE(std::isfinite(available));
  EXPECT_LT(available, 1e15);
}

TEST(Memory, LimitsOfTheProcessCount) {
  constexpr double asked = 1e9;
  require_memory(asked, "the buffers");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit small{static_cast<rlim_t>(0.9 * asked), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &small), 0);
  EXPECT_THROW(require_memory(asked, "the buffers"), Error);
  EXPECT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

}  // namespace
}  // namespace halograd::memory_test
