#include "support/memory.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

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

}  // namespace
}  // namespace halograd::memory_test
