#include "kernels/channels.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::channels_test {
namespace {

template <class T>
class ChannelsTest : public ::testing::Test {};
using Stored = ::testing::Types<double, Bfloat16>;
TYPED_TEST_SUITE(ChannelsTest, Stored);

TYPED_TEST(ChannelsTest, RangesAreCopiedAndAdded) {
  using T = TypeParam;
  const long rows = 37;
  const auto check = [&](const ChannelRange& from, const ChannelRange& to) {
    const auto x = noise<T>(rows * from.channels, 1), before = noise<T>(rows * to.channels, 2);
    const auto copied = to_device(before), added = to_device(before);
    copy_channels<T>(ExecutionSpace(), rows, from, to_device(x), to, copied, false);
    copy_channels<T>(ExecutionSpace(), rows, from, to_device(x), to, added, true);
    ExecutionSpace().fence();
    const auto y = to_host(copied), sum = to_host(added);
    for (long row = 0; row < rows; ++row)
      for (int c = 0; c < to.channels; ++c) {
        const long at = row * to.channels + c;
        const bool inside = c >= to.first && c < to.first + to.count;
        const T value = inside ? x[row * from.channels + from.first + c - to.first] : T(0);
        ASSERT_EQ(y[at], inside ? value : before[at]) << row << ' ' << c;
        ASSERT_EQ(sum[at], T(before[at] + value)) << row << ' ' << c;
      }
  };
  check({5, 1, 3}, {7, 4, 3});
  check({60, 3, 39}, {48, 7, 39});

  const auto few = to_device(noise<T>(rows * 7, 3));
  const auto copy = [&](long copied, const ChannelRange& from) {
    copy_channels<T>(ExecutionSpace(), copied, from, few, {7, 4, 3}, few, false);
  };
  EXPECT_THROW(copy(rows, {5, 3, 3}), Error);
  EXPECT_THROW(copy(rows, {5, 1, 2}), Error);
  EXPECT_THROW(copy(rows + 1, {5, 1, 3}), Error);
}

TYPED_TEST(ChannelsTest, SumsAndBroadcastsAreEachOthersTransposes) {
  using T = TypeParam;
  for (const long rows : {1L, 7L, 300L, 5000L}) {
    const int channels = 19;
    const auto x = noise<T>(rows * channels, 1);
    const auto bias = noise<Wide<T>>(channels, 2);
    const Buffer<Wide<T>> sum("sum", channels);
    const Buffer<T> y("y", rows * channels);
    sum_channels<T>(ExecutionSpace(), rows, channels, to_device(x), sum,
                    Buffer<double>("workspace", sum_channels_workspace(rows, channels)));
    broadcast_channels<T>(ExecutionSpace(), rows, channels, to_device(bias), y);
    ExecutionSpace().fence();
    const auto found = to_host(sum);
    const auto wide = to_host(y);
    for (int c = 0; c < channels; ++c) {
      double expected = 0;
      for (long row = 0; row < rows; ++row) {
        expected += x[row * channels + c];
        ASSERT_EQ(wide[row * channels + c], T(bias[c]));
      }
      EXPECT_NEAR(found[c], expected, 1e-11 + tolerance<T> * std::abs(expected));
    }
  }
  EXPECT_THROW(
      sum_channels<T>(ExecutionSpace(), 4, 2, Buffer<T>("x", 8), Buffer<Wide<T>>("sum", 2), Buffer<double>("short", 1)),
      Error);
}

TYPED_TEST(ChannelsTest, UpsampleCopiesPixelsAndSumsTheirGradients) {
  using T = TypeParam;
  constexpr int channels = 133;  // more than are summed at once
  const UpsampleShape s{2, {2, 3, 4}, channels, {3, 1, 2}};
  const std::size_t in = 2 * 2 * 3 * 4 * channels, out = in * 6;
  const auto x = noise<T>(in, 1), dy = noise<T>(out, 2), before = noise<T>(in, 3);
  const Buffer<T> y("y", out), dx("dx", in);
  const auto added = to_device(before);
  upsample_forward<T>(ExecutionSpace(), s, to_device(x), y);
  upsample_backward<T>(ExecutionSpace(), s, to_device(dy), dx, false);
  upsample_backward<T>(ExecutionSpace(), s, to_device(dy), added, true);
  ExecutionSpace().fence();
  const auto found = to_host(y), gradient = to_host(dx), sum = to_host(added);
  std::vector<double> expected(in);
  std::size_t at = 0;
  for (int n = 0; n < 2; ++n)
    for (int d = 0; d < 6; ++d)
      for (int h = 0; h < 3; ++h)
        for (int w = 0; w < 8; ++w)
          for (int c = 0; c < channels; ++c, ++at) {
            const std::size_t source = (((n * 2 + d / 3) * 3 + h) * 4 + w / 2) * std::size_t{channels} + c;
            ASSERT_EQ(found[at], x[source]) << at;
            expected[source] += dy[at];
          }
  for (std::size_t i = 0; i < in; ++i) {
    const double total = before[i] + expected[i];
    ASSERT_NEAR(gradient[i], expected[i], tolerance<T> + storage_rounding<T> * std::abs(expected[i]));
    ASSERT_NEAR(sum[i], total, tolerance<T> + storage_rounding<T> * std::abs(total));
  }
  EXPECT_THROW(upsample_forward<T>(ExecutionSpace(), s, y, dx), Error);
}

}  // namespace
}  // namespace halograd::channels_test
