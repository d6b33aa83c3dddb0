#include "kernels/mix.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::mix_test {
namespace {

const std::size_t lengths[] = {0, 1, 15, 31, 33, 4096, 4100, 50000};

/// Weights such as 1/3 add up to 1 + 3e-8 in float: the mean of the replicas must not grow by that each time.
TEST(MixTest, AveragesKeepTheMean) {
  const ExecutionSpace exec;
  constexpr std::size_t n = 50000;
  std::vector<std::vector<float>> replicas;
  std::vector<Buffer<float>> before;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    replicas.push_back(noise<float>(n, seed, 1, 3));
    before.push_back(to_device(replicas.back()));
  }
  for (const double weight : {1.0 / 3, 0.3, 0.1}) {
    double drift = 0, error = 0;
    for (std::size_t own = 0; own < 3; ++own) {
      const std::size_t first = (own + 1) % 3, second = (own + 2) % 3;
      const auto &x = replicas[own], &a = replicas[first], &b = replicas[second];
      const auto mixed = to_device(x);
      const MixTerms terms{1 - 2 * weight, 2, {weight, weight}, {before[first].data(), before[second].data()}};
      mix(exec, terms, mixed);
      exec.fence();
      const auto found = to_host(mixed);
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = (1 - 2 * weight) * x[i] + weight * a[i] + weight * b[i];
        error = larger_error(error, found[i] - expected);
        drift += (found[i] - static_cast<double>(x[i])) / (3 * n);
      }
    }
    EXPECT_LT(error, 3 * 0x1p-23) << weight;     // values of 1 to 3: half a unit is 2^-23 at most
    EXPECT_LT(std::abs(drift), 2e-9) << weight;  // a bias of 3e-8 would be 6e-8
  }
}

TEST(MixTest, ReplicasThatAgreeStayAsTheyAre) {
  const auto x = noise<float>(1000, 4);
  const auto mixed = to_device(x), halo = to_device(x);
  mix(ExecutionSpace(), {1.0 / 3, 2, {1.0 / 3, 1.0 / 3}, {halo.data(), halo.data()}}, mixed);
  const auto found = to_host(mixed);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(found[i], x[i]) << i;
}

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

TEST(SquaredDistanceTest, IsTheSumOfSquaresAndALengthIsThatFromTheOrigin) {
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
    EXPECT_EQ(squared_length(exec, device_x), squared_distance(exec, device_x, Buffer<float>("origin", n)));
  }
  EXPECT_THROW(squared_distance(exec, Buffer<float>("x", 3), Buffer<float>("y", 4)), Error);
}

TEST(ScaleTest, Multiplies) {
  const ExecutionSpace exec;
  for (const std::size_t n : lengths) {
    const auto x = noise<float>(n, 3);
    const auto scaled = to_device(x), in_place = to_device(x);
    scale(exec, 1.0 / 7, to_device(x), scaled);
    scale(exec, 1.0 / 7, in_place);
    exec.fence();
    const auto found = to_host(scaled), found_in_place = to_host(in_place);
    for (std::size_t i = 0; i < n; ++i) {
      const auto expected = static_cast<float>(static_cast<double>(x[i]) * (1.0 / 7));
      ASSERT_EQ(found[i], expected) << i;
      ASSERT_EQ(found_in_place[i], expected) << i;
    }
  }
}

}  // namespace
}  // namespace halograd::mix_test
