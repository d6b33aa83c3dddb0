#include "kernels/channels.hpp"

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::channels_test {
namespace {

TEST(ChannelsTest, RangesAreCopiedAndAdded) {
  const long rows = 37;
  const ChannelRange from{5, 1, 3}, to{7, 4, 3};
  const auto x = noise<double>(rows * 5, 1), before = noise<double>(rows * 7, 2);
  const auto copied = to_device(before), added = to_device(before);
  copy_channels<double>(ExecutionSpace(), rows, from, to_device(x), to, copied, false);
  copy_channels<double>(ExecutionSpace(), rows, from, to_device(x), to, added, true);
  ExecutionSpace().fence();
  const auto y = to_host(copied), sum = to_host(added);
  for (long row = 0; row < rows; ++row)
    for (int c = 0; c < 7; ++c) {
      const bool inside = c >= 4;
      const double value = inside ? x[row * 5 + 1 + c - 4] : 0;
      ASSERT_EQ(y[row * 7 + c], inside ? value : before[row * 7 + c]);
      ASSERT_EQ(sum[row * 7 + c], before[row * 7 + c] + value);
    }
  EXPECT_THROW(copy_channels<double>(ExecutionSpace(), rows, {5, 3, 3}, to_device(x), to, copied, false), Error);
  EXPECT_THROW(copy_channels<double>(ExecutionSpace(), rows, {5, 1, 2}, to_device(x), to, copied, false), Error);
  EXPECT_THROW(copy_channels<double>(ExecutionSpace(), rows + 1, from, to_device(x), to, copied, false), Error);
}

TEST(ChannelsTest, SumsAndBroadcastsAreEachOthersTransposes) {
  for (const long rows : {1L, 7L, 300L, 5000L}) {
    const int channels = 19;
    const auto x = noise<double>(rows * channels, 1), bias = noise<double>(channels, 2);
    const Buffer<double> sum("sum", channels), y("y", rows * channels);
    sum_channels<double>(ExecutionSpace(), rows, channels, to_device(x), sum,
                         Buffer<double>("workspace", sum_channels_workspace(rows, channels)));
    broadcast_channels<double>(ExecutionSpace(), rows, channels, to_device(bias), y);
    ExecutionSpace().fence();
    const auto found = to_host(sum), wide = to_host(y);
    for (int c = 0; c < channels; ++c) {
      double expected = 0;
      for (long row = 0; row < rows; ++row) {
        expected += x[row * channels + c];
        ASSERT_EQ(wide[row * channels + c], bias[c]);
      }
      EXPECT_NEAR(found[c], expected, 1e-11);
    }
  }
  EXPECT_THROW(sum_channels<double>(ExecutionSpace(), 4, 2, Buffer<double>("x", 8), Buffer<double>("sum", 2),
                                    Buffer<double>("short", 1)),
               Error);
}

TEST(ChannelsTest, UpsampleCopiesPixelsAndSumsTheirGradients) {
  const UpsampleShape s{2, {2, 3, 4}, 5, {3, 1, 2}};
  const std::size_t in = 2 * 2 * 3 * 4 * 5, out = in * 6;
  const auto x = noise<double>(in, 1), dy = noise<double>(out, 2), before = noise<double>(in, 3);
  const Buffer<double> y("y", out), dx("dx", in);
  const auto added = to_device(before);
  upsample_forward<double>(ExecutionSpace(), s, to_device(x), y);
  upsample_backward<double>(ExecutionSpace(), s, to_device(dy), dx, false);
  upsample_backward<double>(ExecutionSpace(), s, to_device(dy), added, true);
  ExecutionSpace().fence();
  const auto found = to_host(y), gradient = to_host(dx), sum = to_host(added);
  std::vector<double> expected(in);
  std::size_t at = 0;
  for (int n = 0; n < 2; ++n)
    for (int d = 0; d < 6; ++d)
      for (int h = 0; h < 3; ++h)
        for (int w = 0; w < 8; ++w)
          for (int c = 0; c < 5; ++c, ++at) {
            const std::size_t source = (((n * 2 + d / 3) * 3 + h) * 4 + w / 2) * 5UL + c;
            ASSERT_EQ(found[at], x[source]) << at;
            expected[source] += dy[at];
          }
  for (std::size_t i = 0; i < in; ++i) {
    ASSERT_NEAR(gradient[i], expected[i], 1e-13);
    ASSERT_NEAR(sum[i], before[i] + expected[i], 1e-13);
  }
  EXPECT_THROW(upsample_forward<double>(ExecutionSpace(), s, y, dx), Error);
}

}  // namespace
}  // namespace halograd::channels_test
