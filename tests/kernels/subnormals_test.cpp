#include "kernels/subnormals.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace halograd::subnormals_test {
namespace {

/// The smallest normal float by a half, as this thread computes it.
float half_of_smallest() {
  volatile float smallest = std::numeric_limits<float>::min();
  const volatile float half = smallest * 0.5F;
  return half * 1e30F;
}

TEST(Subnormals, CountAsZeroInThisThreadAndThoseThatItStarts) {
  EXPECT_GT(half_of_smallest(), 0);
  float own = 0, started = 0;
  bool can = false;
  std::thread([&] {  // the other tests' thread stays as it is
    can = flush_subnormals();
    own = half_of_smallest();
    std::thread([&] { started = half_of_smallest(); }).join();
  })
      .join();
  EXPECT_GT(half_of_smallest(), 0);
  if (!can) GTEST_SKIP() << "this processor cannot";
  EXPECT_EQ(own, 0);
  EXPECT_EQ(started, 0);
}

}  // namespace
}  // namespace halograd::subnormals_test
