#include "kernels/host/conv_bf16.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/float_bits.hpp"
#include "kernels/host/bf16_tiles.hpp"
#include "kernels/host/winograd.hpp"
#include "kernels/host/winograd_cut.hpp"
#include "tests/kernels/conv_reference.hpp"
#include "tests/kernels/thread_bits.hpp"

namespace halograd::conv_bf16_test {
namespace {

using host::bf16::Unit;

template <class T>
std::vector<T> as(const std::vector<double>& values) {
  std::vector<T> result;
  for (const double value : values) result.push_back(static_cast<float>(value));
  return result;
}

/// Stored once, after sums in float whose error is below `tolerance` of the largest value.
void expect_stored(const std::vector<double>& expected, const std::vector<Bfloat16>& found, double tolerance,
                   const char* what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(expected[i], static_cast<float>(found[i]), 0x1p-8 * std::abs(expected[i]) + tolerance * largest)
        << what << ' ' << i;
  }
}

/// The convolution that computes: products of a unit, or of floats that values are widened to.
struct Way {
  std::string name;
  const Unit* unit = nullptr;
  bool winograd = false;
};
std::vector<Way> ways(const ConvShape& shape) {
  std::vector<Way> result;
  if (!runs_on_host) return result;
  result.push_back({"floats"});
  if (host::winograd_applies(shape)) result.push_back({"Winograd", nullptr, true});
  for (const Unit& unit : host::bf16::units()) {
    if (shape.groups == 1 && unit.present()) result.push_back({unit.name, &unit});
  }
  return result;
}

/// Operands of a convolution, its scratch and its results.
struct Passes {
  ConvShape shape;
  Reference rounded;  ///< of what is stored, and of weights that are rounded as well
  std::vector<Bfloat16> x, dy, y, dx;
  std::vector<float> weights, bias, dweights, dbias;
  std::vector<std::byte> workspace;
  std::byte* scratch;
  host::Exec exec;

  Passes(const ConvShape& s, unsigned seed)
      : shape(s),
        rounded(s, seed),
        x(as<Bfloat16>(rounded.x)),
        dy(as<Bfloat16>(rounded.dy)),
        y(dy.size()),
        dx(x.size()),
        weights(as<float>(rounded.weights)),
        bias(as<float>(rounded.bias)),
        dweights(weights.size()),
        dbias(bias.size()),
        workspace(conv_workspace<Bfloat16>(s) + 64, std::byte{0xff}),  // no number, whatever is read of it
        scratch(workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64) {}

  void forward(const Way& way, bool relu) {
    if (way.unit != nullptr) {
      return host::bf16::forward(exec, *way.unit, shape, x.data(), weights.data(), bias.data(), relu, y.data(),
                                 scratch);
    }
    const auto pass = way.winograd ? host::winograd_forward<Bfloat16> : host::conv_forward<Bfloat16>;
    pass(exec, shape, x.data(), weights.data(), bias.data(), relu, y.data(), scratch);
  }
  void backward_data(const Way& way, bool mask, bool accumulate) {
    const Bfloat16* const relu_output = mask ? x.data() : nullptr;
    if (way.unit != nullptr) {
      return host::bf16::backward_data(exec, *way.unit, shape, dy.data(), weights.data(), relu_output, dx.data(),
                                       accumulate, scratch);
    }
    const auto pass = way.winograd ? host::winograd_backward_data<Bfloat16> : host::conv_backward_data<Bfloat16>;
    pass(exec, shape, dy.data(), weights.data(), relu_output, dx.data(), accumulate, scratch);
  }
  void backward_weights(const Way& way) {
    if (way.unit != nullptr) {
      return host::bf16::backward_weights(exec, *way.unit, shape, x.data(), dy.data(), dweights.data(), dbias.data(),
                                          scratch);
    }
    const auto pass = way.winograd ? host::winograd_backward_weights<Bfloat16> : host::conv_backward_weights<Bfloat16>;
    pass(exec, shape, x.data(), dy.data(), dweights.data(), dbias.data(), scratch);
  }
  void run(const Way& way) {
    forward(way, false);
    backward_data(way, false, false);
    backward_weights(way);
  }
};

/// The three passes, against the definition in double of the values that bf16 rounds to: their products are exact in
/// float.
void check_passes(const Way& way, const ConvShape& s, unsigned seed) {
  SCOPED_TRACE(way.name + ", " + ::testing::PrintToString(s));
  Passes p(s, seed);
  Reference& rounded = p.rounded;
  std::vector<std::vector<double>*> stored{&rounded.x, &rounded.dy};
  if (way.unit != nullptr) stored.push_back(&rounded.weights);
  for (auto* values : stored) {
    for (double& value : *values) value = float_of_bf16(bf16_of(static_cast<float>(value)));
  }
  rounded.compute(s);
  // Winograd's transforms cost half a digit; integers are rounded.
  const bool integers = way.winograd && host::are_integers<Bfloat16>(host::TilePass::forward(s), host::least_products);
  const double tolerance = integers ? 2e-3 : way.winograd ? 1e-5 : 3e-6;
  p.run(way);
  expect_stored(rounded.y, p.y, tolerance, "y");
  expect_stored(rounded.dx, p.dx, tolerance, "dx");
  expect_near(rounded.dweights, p.dweights, tolerance, "dweights");
  expect_near(rounded.dbias, p.dbias, way.winograd ? 1e-5 : 3e-6, "dbias");

  p.forward(way, true);
  std::vector<double> rectified = rounded.y;
  for (double& value : rectified) value = std::max(value, 0.0);
  expect_stored(rectified, p.y, tolerance, "y with ReLU");
  std::vector<double> masked = rounded.dx;
  for (std::size_t i = 0; i < masked.size(); ++i) {
    masked[i] = static_cast<float>(p.x[i]) > 0 ? static_cast<float>(p.dx[i]) + masked[i] : 0;
  }
  p.backward_data(way, true, true);
  expect_stored(masked, p.dx, tolerance, "dx accumulated, through a ReLU");
}

TEST(ConvBf16, MatchesDefinitionOfRoundedValues) {
  for (const ConvShape& shape : layer_shapes()) {
    for (const Way& way : ways(shape)) check_passes(way, shape, 7);
  }
}

TEST(ConvBf16, MatchesDefinitionForRandomShapes) {
  std::mt19937 generator(11);
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(generator); };
  for (int i = 0; i < 60; ++i) {
    ConvShape s;
    s.batch = pick(1, 4);
    s.channels = pick(0, 1) == 0 ? pick(1, 40) : 16 * pick(1, 4);
    s.filters = pick(0, 1) == 0 ? pick(1, 40) : 16 * pick(1, 4);
    for (int axis = i % 3 == 0 ? 0 : 1; axis < 3; ++axis) {
      s.kernel[axis] = pick(1, 4);
      s.stride[axis] = pick(1, 3);
      s.padding[axis] = pick(0, 2);
      s.dilation[axis] = pick(1, 2);
      s.extent[axis] = (s.kernel[axis] - 1) * s.dilation[axis] + pick(1, 9);
    }
    for (const Way& way : ways(s)) check_passes(way, s, static_cast<unsigned>(i));
  }
}

// More pixels than a task takes at a time, and several parts of the gradient.
TEST(ConvBf16, MatchesDefinitionForManyPixels) {
  for (const ConvShape& s :
       {image(6, 19, 23, 16, 16, 3, 1, 1), image(5, 23, 19, 3, 20, 5, 2, 2), image(5, 11, 11, 80, 48, 3, 1, 1),
        image(2, 9, 14, 50, 200, 5, 1, 2), volume(image(2, 13, 16, 33, 50, 3, 1, 1), 5, 3, 1),
        volume(image(1, 10, 10, 40, 40, 3, 1, 1), 4, 3, 1), image(9, 160, 160, 4, 4, 3, 1, 1),
        image(3, 20, 20, 264, 8, 1) /* two images a block: a task of two threads has the odd one alone */,
        image(3, 19, 21, 64, 40, 1) /* read in place: the last strip overlaps the one before it */,
        image(2, 20, 20, 256, 288, 1), volume(image(2, 7, 9, 32, 80, 1), 5, 1, 0)}) {
    for (const Way& way : ways(s)) check_passes(way, s, 3);
  }
}

/// The root mean square of the difference to what is expected, over that of the latter.
template <class T>
double root_mean_square_error(const std::vector<double>& expected, const std::vector<T>& found) {
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<float>(found[i]) - expected[i], 2);
    all += expected[i] * expected[i];
  }
  return std::sqrt(difference / all);
}

// With integers or without: less than what bf16 rounds a value by, of values from a normal distribution and of such
// with a few large ones in each channel. Results that are stored as bf16 have 0.17 % from that alone.
TEST(ConvBf16, WinogradIsAsAccurateAsBf16) {
  if (!runs_on_host) GTEST_SKIP() << "of cores";
  for (const ConvShape& s : {image(3, 16, 16, 64, 64, 3, 1, 1), image(2, 13, 11, 256, 80, 3, 1, 1),
                             image(2, 8, 8, 64, 48, 5, 1, 2), volume(image(2, 12, 16, 32, 48, 3, 1, 1), 6, 3, 1)}) {
    for (const bool few_large : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(s));
      Passes p(s, 13);
      std::mt19937 generator(17);
      std::normal_distribution<double> normal;
      for (auto* values : {&p.rounded.x, &p.rounded.dy}) {
        for (double& value : *values) {
          const double large = few_large && generator() % 20 == 0 ? 8 : 1;
          value = float_of_bf16(bf16_of(static_cast<float>(large * normal(generator))));
        }
      }
      p.rounded.compute(s);
      p.x = as<Bfloat16>(p.rounded.x);
      p.dy = as<Bfloat16>(p.rounded.dy);
      p.run({"Winograd", nullptr, true});
      constexpr double bound = 3e-3;
      EXPECT_LT(root_mean_square_error(p.rounded.y, p.y), bound);
      EXPECT_LT(root_mean_square_error(p.rounded.dx, p.dx), bound);
      EXPECT_LT(root_mean_square_error(p.rounded.dweights, p.dweights), bound);
      EXPECT_LT(root_mean_square_error(p.rounded.dbias, p.dbias), 1e-6);
    }
  }
}

// A training run that diverges must not seem to go on.
TEST(ConvBf16, WhatIsNotFiniteIsNotHidden) {
  const ConvShape s = image(2, 12, 12, 64, 64, 3, 1, 1);
  for (const Way& way : ways(s)) {
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      SCOPED_TRACE(way.name);
      Passes p(s, 3);
      p.x[5] = p.dy[5] = Bfloat16(value);  // the first pixel's channel 5
      p.run(way);
      for (int i = 0; i < 64; ++i) {
        EXPECT_FALSE(std::isfinite(static_cast<float>(p.y[i]))) << i;
        EXPECT_FALSE(std::isfinite(static_cast<float>(p.dx[i]))) << i;
        EXPECT_TRUE(std::isfinite(static_cast<float>(p.y[p.y.size() / 2 + i]))) << "of the second image: " << i;
        EXPECT_FALSE(std::isfinite(p.dweights[(4 * 64 + 5) * 64 + i])) << "in the middle: " << i;
        EXPECT_FALSE(std::isfinite(p.dweights[(4 * 64 + i) * 64 + 5])) << "in the middle: " << i;
      }
      EXPECT_FALSE(std::isfinite(p.dbias[5]));
    }
  }
}

// Run by the test below.
TEST(ConvBf16, DISABLED_WritesBits) {
  BitWriter out;
  for (const ConvShape& s :
       {image(7, 12, 12, 64, 96, 3, 1, 1), image(5, 9, 9, 32, 160, 3, 2, 1), image(2, 9, 9, 260, 200, 3, 1, 1),
        image(5, 9, 9, 64, 160, 1), volume(image(3, 8, 8, 32, 64, 3, 1, 1), 6, 3, 1)}) {
    for (const Way& way : ways(s)) {
      Passes passes(s, 2);
      passes.run(way);
      for (const auto* values : {&passes.y, &passes.dx}) out.write(*values);
      for (const auto* values : {&passes.dweights, &passes.dbias}) out.write(*values);
    }
  }
}
TEST(ConvBf16, HasTheSameBitsWithAnyNumberOfThreads) {
  if (!runs_on_host) GTEST_SKIP() << "of cores";
  expect_same_bits_with_any_threads("ConvBf16.DISABLED_WritesBits", 100000);
}

// A network reserves memory for its largest batch.
TEST(ConvBf16, WorkspaceServesSmallerBatches) {
  for (const ConvShape& s : {image(100, 32, 32, 16, 16, 3, 1, 1), image(100, 8, 8, 300, 256, 3, 2, 1),
                             image(100, 1, 1, 40, 60, 1), image(100, 1, 1, 32, 64, 1)}) {
    const std::size_t enough = conv_workspace<Bfloat16>(s);
    for (int batch = 1; batch < 100; ++batch) EXPECT_LE(conv_workspace<Bfloat16>(s.with_batch(batch)), enough) << batch;
  }
}

// Tiles as they are defined, whatever order a unit takes them in.
TEST(Bf16Units, MultiplyTiles) {
  constexpr int row_blocks = 3, column_blocks = 5, steps = 4;
  constexpr int rows = row_blocks * host::bf16::tile_width, columns = column_blocks * host::bf16::tile_width,
                depth = steps * host::bf16::tile_depth, pitch = columns + 7;
  std::mt19937 generator(5);
  const auto left_values = random_values(rows * depth, generator),
             right_values = random_values(depth * columns, generator);
  alignas(64) static std::uint16_t left[rows * depth], right[depth * columns];
  std::vector<double> expected(static_cast<std::size_t>(rows * pitch), 1);
  const auto rounded = [](double value) { return bf16_of(static_cast<float>(value)); };
  for (int d = 0; d < depth; ++d) {
    for (int m = 0; m < rows; ++m) {
      left[((m / 16 * steps + d / 32) * 16 + m % 16) * 32 + d % 32] = rounded(left_values[m * depth + d]);
    }
    for (int c = 0; c < columns; ++c) {
      right[((c / 16 * steps + d / 32) * 16 + d % 32 / 2) * 32 + 2 * (c % 16) + d % 2] =
          rounded(right_values[d * columns + c]);
    }
  }
  for (int m = 0; m < rows; ++m) {
    for (int c = 0; c < columns; ++c) {
      for (int d = 0; d < depth; ++d) {
        expected[m * pitch + c] += static_cast<double>(float_of_bf16(rounded(left_values[m * depth + d]))) *
                                   float_of_bf16(rounded(right_values[d * columns + c]));
      }
    }
  }
  for (const Unit& unit : host::bf16::units()) {
    if (!unit.present()) continue;
    std::vector<float> sums(static_cast<std::size_t>(rows * pitch), 1);
    const host::bf16::Session session(unit);
    const std::uint16_t* blocks[row_blocks];
    for (int i = 0; i < row_blocks; ++i) blocks[i] = left + i * steps * host::bf16::tile_values;
    const long left_steps[steps] = {0, host::bf16::tile_values, 2L * host::bf16::tile_values,
                                    3L * host::bf16::tile_values};
    session.multiply({blocks, left_steps, host::bf16::tile_depth, row_blocks, right, steps * host::bf16::tile_values,
                      column_blocks, steps, sums.data(), pitch, true});
    expect_near(expected, sums, 1e-6, unit.name);
    session.multiply({blocks, left_steps, host::bf16::tile_depth, row_blocks, right, steps * host::bf16::tile_values,
                      column_blocks, steps, sums.data(), pitch, false});
    std::vector<double> alone = expected;
    for (int i = 0; i < rows * pitch; ++i) alone[i] -= i % pitch < columns ? 1 : 0;
    expect_near(alone, sums, 1e-6, unit.name);
  }
}

TEST(Bf16Tiles, AreMirrored) {
  std::uint32_t tile[256], mirrored[256];
  std::iota(tile, tile + 256, 0U);
  host::bf16::mirror_tile(tile, mirrored);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(mirrored[i], static_cast<std::uint32_t>(i % 16 * 16 + i / 16));
}

TEST(Bf16Tiles, RoundAsDefined) {
  std::mt19937 generator(9);
  const auto first = random_values(16, generator), second = random_values(16, generator);
  const std::vector<float> a(first.begin(), first.end()), b(second.begin(), second.end());
  std::uint16_t row[16];
  std::uint32_t pairs[16], stored_pairs[16];
  host::bf16::round_row(a.data(), row);
  host::bf16::round_pairs(a.data(), b.data(), pairs);
  host::bf16::pair_rows(as<Bfloat16>(first).data(), as<Bfloat16>(second).data(), stored_pairs);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(row[i], bf16_of(a[i]));
    EXPECT_EQ(stored_pairs[i], pairs[i]);
    EXPECT_EQ(pairs[i], bf16_of(a[i]) | static_cast<std::uint32_t>(bf16_of(b[i])) << 16U);
  }
}

}  // namespace
}  // namespace halograd::conv_bf16_test
