#include "kernels/peak.hpp"

#include <gtest/gtest.h>

#include "kernels/conv.hpp"

namespace halograd::peak_test {
namespace {

// No machine computes or moves less or more than this: a loop that the compiler dropped would.
TEST(Peak, IsWhatAMachineCanDo) {
  const ExecutionSpace exec;
  const double flops = measure_fma_peak(exec);
  EXPECT_GT(flops, 1e8);
  EXPECT_LT(flops, 1e16);
  const double bf16 = measure_bf16_peak(exec);
  if (computes_in(Precision::bf16) && runs_on_host) {
    EXPECT_GT(bf16, 1e8);
    EXPECT_LT(bf16, 1e16);
  } else {
    EXPECT_EQ(bf16, 0);
  }
  for (const double bandwidth : {measure_memory_peak(exec), measure_memory_bandwidth(exec)}) {
    EXPECT_GT(bandwidth, 1e8);
    EXPECT_LT(bandwidth, 1e14);
  }
}

TEST(Peak, PassesAreCountedUntilTheirEnd) {
  double last = 0;
  const double passes = measure_passes(ExecutionSpace(), [&](double seconds) {
    EXPECT_GE(seconds, last);
    last = seconds;
    return seconds >= 0.02;
  });
  EXPECT_GE(last, 0.02);
  EXPECT_GT(passes, 1);
  EXPECT_LT(passes, 1e6);
}

}  // namespace
}  // namespace halograd::peak_test
