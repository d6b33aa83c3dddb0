#include "kernels/mix.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd {
namespace {

const std::size_t lengths[] = {0, 1, 15, 31, 33, 4096, 4100, 50000};

/// Rounded once: weights or partial sums in float would let the mean of the replicas drift.
TEST(MixTest, IsTheWeightedSumRoundedOnce) {
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    for (int count = 0; count <= mix_width; ++count) {
      const auto x = noise<float>(n, 1);
      const auto mixed = to_device(x);
      std::vector<std::vector<float>> halos;
      std::vector<Buffer<float>> device_halos;
      MixTerms terms;
      terms.self_weight = 0.3;
      terms.count = count;
      for (int j = 0; j < count; ++j) {
        halos.push_back(noise<float>(n, 10 + j));
        device_halos.push_back(to_device(halos.back()));
        terms.weights[j] = 0.1 * (j + 1);
        terms.halos[j] = device_halos.back().data();
      }
      mix(exec, terms, mixed);
      exec.fence();
      const auto found = to_host(mixed);
      for (std::size_t i = 0; i < n; ++i) {
        double expected = 0.3 * x[i];
        for (int j = 0; j < count; ++j) expected += 0.1 * (j + 1) * halos[j][i];
        ASSERT_LE(std::abs(found[i] - expected), 0x1.000001p-24 * std::abs(expected))
            << i << " of " << n << " with " << count;
      }
    }
  }
}

TEST(MixTest, RefusesMoreHalosThanItReads) {
  const Buffer<float> x("x", 3);
  MixTerms terms;
  terms.count = mix_width + 1;
  EXPECT_THROW(mix(ExecutionSpace(), terms, x), Error);
  terms.count = -1;
  EXPECT_THROW(mix(ExecutionSpace(), terms, x), Error);
}

TEST(SquaredDistanceTest, IsTheSumOfSquares) {
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<float>(n, 3, 100, 101);
    const auto y = noise<float>(n, 4, 100, 101);
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      expected += difference * difference;
    }
    const auto device_x = to_device(x);
    const auto device_y = to_device(y);
    const double found = squared_distance(exec, device_x, device_y);
    EXPECT_NEAR(found, expected, 1e-12 * expected);
    EXPECT_EQ(squared_distance(exec, device_x, device_y), found);
    EXPECT_EQ(squared_distance(exec, device_x, device_x), 0.0);
  }
  EXPECT_THROW(squared_distance(exec, Buffer<float>("x", 3), Buffer<float>("y", 4)), Error);
}

TEST(ScaleTest, Multiplies) {
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<float>(n, 3);
    const auto scaled = to_device(x);
    scale(exec, 1.0 / 7, scaled);
    exec.fence();
    const auto found = to_host(scaled);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(found[i], static_cast<float>(static_cast<double>(x[i]) / 7)) << i;
  }
}

}  // namespace
}  // namespace halograd
