#include "kernels/finite.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/buffers.hpp"

namespace halograd::finite_test {
namespace {

template <class T>
long count(const std::vector<float>& values) {
  const Buffer<T> buffer("values", values.size());
  const auto host = Kokkos::create_mirror_view(buffer);
  for (std::size_t i = 0; i < values.size(); ++i) host(i) = values[i];
  Kokkos::deep_copy(buffer, host);
  return count_non_finite<T>(ExecutionSpace(), buffer);
}

template <class T>
class CountNonFinite : public ::testing::Test {};
using Stored = ::testing::Types<float, Bfloat16>;
TYPED_TEST_SUITE(CountNonFinite, Stored);

TYPED_TEST(CountNonFinite, CountsInfinitiesAndNaNsWhereverTheyLie) {
  using T = TypeParam;
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(count<T>({}), 0);
  EXPECT_EQ(count<T>({0, -0.0F, 0x1.fep127F, -0x1.fep127F, Limits::denorm_min()}), 0);
  for (const std::size_t length : {1U, 17U, 4096U, 4097U, 10000U}) {
    std::vector<float> values(length, 1.0F);
    values.front() = Limits::quiet_NaN();
    EXPECT_EQ(count<T>(values), 1) << length;
    values.back() = -Limits::infinity();
    EXPECT_EQ(count<T>(values), length == 1 ? 1 : 2) << length;
    values[length / 2] = Limits::infinity();
    EXPECT_EQ(count<T>(values), length == 1 ? 1 : 3) << length;
  }
}

}  // namespace
}  // namespace halograd::finite_test
