#include "kernels/sketch.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/random.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::sketch_test {
namespace {

TEST(SketchTest, SumsWithRandomSigns) {
  for (const std::size_t n : {0, 1, 2047, 2048, 2049, 50000}) {
    const auto x = noise<float>(n, 3);
    const auto found = sketch(ExecutionSpace(), 17, to_device(x));
    for (int k = 0; k < sketch_width; ++k) {
      double expected = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const bool positive = ((random_bits(17, i) >> static_cast<unsigned>(k)) & 1U) != 0;
        expected += positive ? x[i] : -static_cast<double>(x[i]);
      }
      EXPECT_NEAR(found[static_cast<std::size_t>(k)], expected, 1e-10 * static_cast<double>(n + 1)) << n << " " << k;
    }
  }
}

/// 200 keys with sketch_width projections each: the standard error of the mean square is sqrt(2 / 3200) = 2.5 %.
TEST(SketchTest, MeanSquareIsTheSquaredNorm) {
  const std::size_t n = 3000;
  const auto x = noise<float>(n, 4);
  double norm = 0, estimate = 0;
  for (const float value : x) norm += static_cast<double>(value) * value;
  const auto device = to_device(x);
  for (std::uint64_t key = 0; key < 200; ++key) {
    for (const double each : sketch(ExecutionSpace(), key, device)) estimate += each * each / (200 * sketch_width);
  }
  EXPECT_NEAR(estimate, norm, 4 * 0.025 * norm);
}

}  // namespace
}  // namespace halograd::sketch_test
