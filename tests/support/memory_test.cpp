#include "support/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/error.hpp"

namespace halograd::memory_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // memory that is given back is kept from use, and the sanitizer's own is not limited
#else
constexpr bool sanitized = false;
#endif
constexpr std::size_t chunk = 64U << 20U;  // far beyond what comes and goes unasked

TEST(Memory, PeakKeepsWhatWasGivenBack) {
  if (sanitized) GTEST_SKIP();
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
  if (sanitized) GTEST_SKIP();
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
