#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::elementwise_test {
namespace {

template <class T>
class ElementwiseTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(ElementwiseTest, Reals);

const std::size_t lengths[] = {0, 1, 3, 17, 4095, 4096, 4097, 10000};

TYPED_TEST(ElementwiseTest, ReluForwardIsTheMaximumWithZero) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<T>(n, 1);
    const auto device_x = to_device(x);
    const Buffer<T> y("y", n);
    relu_forward<T>(exec, device_x, y);
    relu_forward<T>(exec, device_x, device_x);
    exec.fence();
    const auto result = to_host(y);
    const auto in_place = to_host(device_x);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(result[i], x[i] > 0 ? x[i] : T(0)) << i << " of " << n;
      ASSERT_EQ(in_place[i], result[i]);
    }
  }
}

TYPED_TEST(ElementwiseTest, ReluKeepsNotANumber) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const auto x = to_device(std::vector<T>{std::nanf(""), T(-1)});
  relu_forward<T>(exec, x, x);
  exec.fence();
  EXPECT_TRUE(std::isnan(to_host(x)[0]));
  EXPECT_EQ(to_host(x)[1], T(0));
}

TYPED_TEST(ElementwiseTest, ReluBackwardPassesWhereTheOutputIsPositive) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    auto y = noise<T>(n, 2);
    for (auto& value : y) value = value > 0 ? value : T(0);
    const auto dy = noise<T>(n, 3);
    const auto before = noise<T>(n, 4);
    const auto device_y = to_device(y);
    const auto device_dy = to_device(dy);
    const auto overwritten = to_device(before);
    const auto added = to_device(before);
    relu_backward<T>(exec, device_y, device_dy, overwritten, false);
    relu_backward<T>(exec, device_y, device_dy, added, true);
    relu_backward<T>(exec, device_y, device_dy, device_dy, false);
    exec.fence();
    const auto result = to_host(overwritten);
    const auto sum = to_host(added);
    const auto in_place = to_host(device_dy);
    for (std::size_t i = 0; i < n; ++i) {
      const T expected = y[i] > 0 ? dy[i] : T(0);
      ASSERT_EQ(result[i], expected);
      ASSERT_EQ(sum[i], T(before[i] + expected));
      ASSERT_EQ(in_place[i], expected);
    }
  }
}

TYPED_TEST(ElementwiseTest, AddAndCopyGradient) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<T>(n, 5);
    const auto y = noise<T>(n, 6);
    const auto device_x = to_device(x);
    const auto device_y = to_device(y);
    const Buffer<T> z("z", n);
    const auto added = to_device(x);
    const Buffer<T> copied("copied", n);
    add_forward<T>(exec, device_x, device_y, z);
    add_forward<T>(exec, device_x, device_y, device_x);
    copy_gradient<T>(exec, device_y, added, true);
    copy_gradient<T>(exec, device_y, copied, false);
    exec.fence();
    const auto results = {to_host(z), to_host(device_x), to_host(added)};
    const auto copy = to_host(copied);
    for (std::size_t i = 0; i < n; ++i) {
      for (const auto& result : results) ASSERT_EQ(result[i], T(x[i] + y[i]));
      ASSERT_EQ(copy[i], y[i]);
    }
  }
}

TYPED_TEST(ElementwiseTest, DropoutKeepsWhatTheRandomNumbersSay) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<T>(n, 7, 1, 2);
    const auto before = noise<T>(n, 8);
    for (const double probability : {0.0, 0.1, 0.5, 0.75}) {
      const auto device_x = to_device(x);
      const Buffer<T> y("y", n);
      const auto added = to_device(before);
      dropout<T>(exec, device_x, y, probability, 99, false);
      dropout<T>(exec, device_x, added, probability, 99, true);
      dropout<T>(exec, device_x, device_x, probability, 99, false);
      exec.fence();
      const auto result = to_host(y);
      const auto sum = to_host(added);
      const auto in_place = to_host(device_x);
      for (std::size_t i = 0; i < n; ++i) {
        const bool kept = static_cast<double>(random_uniform(99, i)) >= probability;
        const double expected = kept ? static_cast<double>(x[i]) / (1 - probability) : 0.0;
        ASSERT_NEAR(result[i], expected, 8 * tolerance<T> + storage_rounding<T> * expected);
        ASSERT_EQ(in_place[i], result[i]);
        const double total = before[i] + expected;
        ASSERT_NEAR(sum[i], total, 8 * tolerance<T> + storage_rounding<T> * std::abs(total));
      }
    }
  }
}

TYPED_TEST(ElementwiseTest, DropoutKeepsTheShareItShould) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const std::size_t n = 200000;
  const auto ones = to_device(std::vector<T>(n, T(1)));
  const Buffer<T> y("y", n);
  const Buffer<T> other("other", n);
  for (const double probability : {0.1, 0.3, 0.5, 0.9}) {
    for (const std::uint64_t key : {1ULL, 2ULL, 1ULL << 40U}) {
      dropout<T>(exec, ones, y, probability, key, false);
      dropout<T>(exec, ones, other, probability, key + 1, false);
      exec.fence();
      const auto first = to_host(y);
      const auto second = to_host(other);
      double kept = 0, kept_in_both = 0;
      for (std::size_t i = 0; i < n; ++i) {
        kept += first[i] != 0;
        kept_in_both += first[i] != 0 && second[i] != 0;
      }
      const double share = 1 - probability;
      EXPECT_NEAR(kept, n * share, 4 * std::sqrt(n * share * probability));
      const double both = share * share;  // masks of neighbouring keys are independent
      EXPECT_NEAR(kept_in_both, n * both, 4 * std::sqrt(n * both * (1 - both)));
    }
  }
}

TYPED_TEST(ElementwiseTest, DropoutBackwardUsesTheForwardMask) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const std::size_t n = 5000;
  const auto x = to_device(std::vector<T>(n, T(3)));
  const auto dy = to_device(std::vector<T>(n, T(-2)));
  const Buffer<T> y("y", n);
  const Buffer<T> dx("dx", n);
  dropout<T>(exec, x, y, 0.4, 12345, false);
  dropout<T>(exec, dy, dx, 0.4, 12345, false);
  exec.fence();
  const auto forward = to_host(y);
  const auto backward = to_host(dx);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(forward[i] != 0, backward[i] != 0) << i;
}

TYPED_TEST(ElementwiseTest, DropoutOfEverythingIsZero) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const auto x = to_device(std::vector<T>(100, T(std::numeric_limits<float>::infinity())));
  dropout<T>(exec, x, x, 1.0, 5, false);
  exec.fence();
  for (const T value : to_host(x)) EXPECT_EQ(value, T(0));
  EXPECT_THROW(dropout<T>(exec, x, x, 1.5, 5, false), Error);
  EXPECT_THROW(dropout<T>(exec, x, x, -0.1, 5, false), Error);
}

TYPED_TEST(ElementwiseTest, RefusesRangesOfDifferentLength) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Buffer<T> shorter("shorter", 3);
  const Buffer<T> longer("longer", 4);
  EXPECT_THROW(relu_forward<T>(exec, shorter, longer), Error);
  EXPECT_THROW(relu_backward<T>(exec, shorter, shorter, longer, true), Error);
  EXPECT_THROW(add_forward<T>(exec, shorter, longer, longer), Error);
  EXPECT_THROW(copy_gradient<T>(exec, longer, shorter, false), Error);
  EXPECT_THROW(dropout<T>(exec, longer, shorter, 0.5, 1, false), Error);
}

template <class T>
void check_conversions() {
  if constexpr (std::is_same_v<T, float>) {
    GTEST_SKIP() << "kernels run on a device";
  } else {
    const ExecutionSpace exec;
    for (const std::size_t n : lengths) {
      const auto x = noise<float>(n, 10, -100, 100);
      const Buffer<T> stored("stored", n);
      const Buffer<float> back("back", n);
      convert_values<float, T>(exec, to_device(x), stored);
      convert_values<T, float>(exec, stored, back);
      exec.fence();
      const auto found = to_host(back);
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(found[i], x[i], 0x1p-8 * std::abs(x[i])) << i << " of " << n;
    }
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> special{1 + 0x1p-8F, 1 + 0x1.8p-7F, 1 + 0x1.02p-8F, -0.0F, infinity, 0x1.fffffep127F},
        expected{1, 1 + 0x1p-6F, 1 + 0x1p-7F, -0.0F, infinity, infinity};  // ties go to the even neighbour
    const Buffer<T> stored("stored", special.size());
    const Buffer<float> back("back", special.size());
    convert_values<float, T>(exec, to_device(special), stored);
    convert_values<T, float>(exec, stored, back);
    exec.fence();
    EXPECT_EQ(to_host(back), expected);
    const auto nan = to_device(std::vector<float>{float_of(0x7f800001U), float_of(0x7fffffffU)});
    const Buffer<T> kept("kept", 2);
    convert_values<float, T>(exec, nan, kept);
    exec.fence();
    for (const float value : to_host(kept)) EXPECT_TRUE(std::isnan(value));
    EXPECT_THROW((convert_values<float, T>(exec, nan, stored)), Error);
  }
}

TEST(ConversionTest, RoundsToNearestAndBackIsExact) {
  check_conversions<Bfloat16>();
}

}  // namespace
}  // namespace halograd::elementwise_test
