#include "kernels/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::codec_test {
namespace {

const std::size_t lengths[] = {1, 7, 255, 256, 257, 512, 5000};

/// x as its code from nothing, and the code.
struct Coded {
  std::vector<float> values;
  std::size_t bytes = 0;
};

Coded coded(const Codec& codec, const std::vector<float>& x, const std::vector<float>& estimate) {
  const ExecutionSpace exec;
  const std::size_t n = x.size();
  const Buffer<std::byte> code("code", codec.bytes(n));
  const auto here = to_device(estimate), there = to_device(estimate);
  encode_difference(exec, codec, to_device(x), here, code);
  add_decoded(exec, codec, code, there);
  exec.fence();
  const auto values = to_host(here);
  const auto decoded = to_host(there);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(decoded[i])) << i;
  }
  return {{values.begin(), values.end()}, code.extent(0)};
}

Coded coded(const Codec& codec, const std::vector<float>& x) {
  return coded(codec, x, std::vector<float>(x.size()));
}

TEST(CodecTest, Bf16IsTheNearestOfEightBits) {
  for (const std::size_t n : lengths) {
    const auto x = noise<float>(n, 1);
    const Coded found = coded({CodecKind::bf16}, {x.begin(), x.end()});
    EXPECT_EQ(found.bytes, (n + 255) / 256 * 512);
    for (std::size_t i = 0; i < n; ++i) {
      const float spacing = std::ldexp(1.0F, std::ilogb(x[i]) - 7);
      EXPECT_LE(std::abs(found.values[i] - x[i]), spacing / 2) << x[i];
      EXPECT_EQ(std::bit_cast<std::uint32_t>(found.values[i]) & 0xffffU, 0U);
    }
  }
  const std::vector<float> ties{1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -0x1.fep127F, 0.0F};
  EXPECT_EQ(coded({CodecKind::bf16}, ties).values, (std::vector<float>{1.0F, 1.0F + 0x1p-6F, -0x1.fep127F, 0.0F}));
}

TEST(CodecTest, Int8IsTheNearestOf255StepsOfTheBlocksLargest) {
  for (const std::size_t n : lengths) {
    auto x = noise<float>(n, 2);
    for (std::size_t i = 0; i < n; ++i) x[i] *= i < 256 ? 1e-6F : 10;  // blocks have scales of their own
    const Coded found = coded({CodecKind::int8}, {x.begin(), x.end()});
    EXPECT_EQ(found.bytes, (n + 255) / 256 * 260);
    for (std::size_t begin = 0; begin < n; begin += 256) {
      const std::size_t end = std::min(n, begin + 256);
      double largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      for (std::size_t i = begin; i < end; ++i) {
        EXPECT_LE(std::abs(found.values[i] - static_cast<double>(x[i])), largest / 254 * 1.0001) << i;
      }
    }
  }
  std::vector<float> exact(300);
  for (std::size_t i = 0; i < 300; ++i) exact[i] = 0.25F * (static_cast<float>(i % 255) - 127);
  exact[299] = 31.75F;  // 127 steps in the second block too
  EXPECT_EQ(coded({CodecKind::int8}, exact).values, exact);
  EXPECT_EQ(coded({CodecKind::int8}, std::vector<float>(300)).values, std::vector<float>(300));
  const std::vector<float> tiny{1e-45F, -3e-45F, 0.0F};  // a denormal scale
  for (const float value : coded({CodecKind::int8}, tiny).values) EXPECT_LE(std::abs(value), 1e-42F);
}

TEST(CodecTest, TopKSendsTheLargestOfEachBlock) {
  for (const std::size_t n : lengths) {
    for (const int kept : {1, 5, 256}) {
      const auto x = noise<float>(n, 3);
      const Coded found = coded({CodecKind::top_k, kept}, {x.begin(), x.end()});
      EXPECT_EQ(found.bytes, (n + 255) / 256 * 5 * static_cast<std::size_t>(kept));
      for (std::size_t begin = 0; begin < n; begin += 256) {
        const std::size_t end = std::min(n, begin + 256);
        std::vector<std::size_t> order(end - begin);
        std::iota(order.begin(), order.end(), begin);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
        for (std::size_t place = 0; place < order.size(); ++place) {
          const float expected = place < static_cast<std::size_t>(kept) ? x[order[place]] : 0.0F;
          EXPECT_EQ(found.values[order[place]], expected) << n << " " << kept;
        }
      }
    }
  }
}

TEST(CodecTest, TopKSendsTheFirstOfEqualOnes) {
  std::vector<float> x(300), expected(300);
  for (std::size_t i = 0; i < 300; ++i) x[i] = i % 3 == 0 ? -0.0F : (i % 2 == 0 ? 0.5F : -0.5F);
  x[200] = 1e-45F;
  x[250] = -2;
  for (const std::size_t i : {1, 2, 4, 250, 256, 257, 259, 260}) expected[i] = x[i];
  EXPECT_EQ(coded({CodecKind::top_k, 4}, x).values, expected);
  x.assign(256, 0);
  x[255] = 1e-45F;
  EXPECT_EQ(coded({CodecKind::top_k, 4}, x).values, x);
}

/// What a code loses stays in the next difference: the estimate comes to the value itself.
TEST(CodecTest, RepeatedDifferencesLeaveNoError) {
  const auto noisy = noise<float>(1000, 4);
  const std::vector<float> x(noisy.begin(), noisy.end());
  const auto left_after = [&](const Codec& codec, int times) {
    std::vector<float> estimate(x.size());
    for (int i = 0; i < times; ++i) estimate = coded(codec, x, estimate).values;
    double error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) error = larger_error(error, static_cast<double>(x[i]) - estimate[i]);
    return error;
  };
  EXPECT_LT(left_after({CodecKind::bf16}, 4), 2e-7);
  EXPECT_LT(left_after({CodecKind::int8}, 5), 2e-7);
  EXPECT_EQ(left_after({CodecKind::top_k, 32}, 8), 0);
  EXPECT_GT(left_after({CodecKind::top_k, 32}, 7), 0);
}

TEST(CodecTest, RefusesWhatDoesNotFit) {
  const Buffer<float> x("x", 300);
  EXPECT_THROW(encode_difference(ExecutionSpace(), {CodecKind::int8}, x, x, Buffer<std::byte>("code", 519)), Error);
  EXPECT_THROW(add_decoded(ExecutionSpace(), {CodecKind::top_k, 0}, Buffer<std::byte>("code", 0), x), Error);
}

}  // namespace
}  // namespace halograd::codec_test
