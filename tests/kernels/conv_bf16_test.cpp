#include "kernels/host/conv_bf16.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/float_bits.hpp"
#include "kernels/host/bf16_tiles.hpp"
#include "tests/kernels/conv_reference.hpp"
#include "tests/kernels/thread_bits.hpp"

namespace halograd::conv_bf16_test {
namespace {

using host::bf16::Unit;

std::vector<const Unit*> present_units() {
  std::vector<const Unit*> units;
  for (const Unit& unit : host::bf16::units()) {
    if (unit.present()) units.push_back(&unit);
  }
  return units;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// Operands of a convolution, its scratch and its results.
struct Passes {
  ConvShape shape;
  Reference given;
  std::vector<float> x, weights, bias, dy, y, dx, dweights, dbias;
  std::vector<std::byte> workspace;
  std::byte* scratch;
  host::Exec exec;

  Passes(const ConvShape& s, unsigned seed)
      : shape(s),
        given(s, seed),
        x(floats(given.x)),
        weights(floats(given.weights)),
        bias(floats(given.bias)),
        dy(floats(given.dy)),
        y(dy.size()),
        dx(x.size()),
        dweights(weights.size()),
        dbias(bias.size()),
        workspace(host::bf16::conv_workspace(s) + 64),
        scratch(workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64) {}

  void run(const Unit& unit) {
    host::bf16::forward(exec, unit, shape, x.data(), weights.data(), bias.data(), false, y.data(), scratch);
    host::bf16::backward_data(exec, unit, shape, dy.data(), weights.data(), nullptr, dx.data(), false, scratch);
    host::bf16::backward_weights(exec, unit, shape, x.data(), dy.data(), dweights.data(), dbias.data(), scratch);
  }
};

/// The three passes, against the definition in double of the values that bf16 rounds to: their products are exact in
/// float.
void check_passes(const Unit& unit, const ConvShape& s, unsigned seed) {
  SCOPED_TRACE(std::string(unit.name) + ", " + ::testing::PrintToString(s));
  Passes p(s, seed);
  Reference rounded(s, seed);
  for (auto* values : {&rounded.x, &rounded.weights, &rounded.dy}) {
    for (double& value : *values) value = float_of_bf16(bf16_of(static_cast<float>(value)));
  }
  rounded.compute(s);
  constexpr double tolerance = 3e-6;
  p.run(unit);
  expect_near(rounded.y, p.y, tolerance, "y");
  expect_near(rounded.dx, p.dx, tolerance, "dx");
  expect_near(rounded.dweights, p.dweights, tolerance, "dweights");
  expect_near(p.given.dbias, p.dbias, tolerance, "dbias: sums of what is not rounded");

  host::bf16::forward(p.exec, unit, s, p.x.data(), p.weights.data(), p.bias.data(), true, p.y.data(), p.scratch);
  std::vector<double> rectified = rounded.y;
  for (double& value : rectified) value = std::max(value, 0.0);
  expect_near(rectified, p.y, tolerance, "y with ReLU");
  host::bf16::backward_data(p.exec, unit, s, p.dy.data(), p.weights.data(), p.x.data(), p.dx.data(), true, p.scratch);
  std::vector<double> masked = rounded.dx;
  for (std::size_t i = 0; i < masked.size(); ++i) masked[i] = p.x[i] > 0 ? 2 * masked[i] : 0;
  expect_near(masked, p.dx, tolerance, "dx accumulated, through a ReLU");
}

TEST(ConvBf16, MatchesDefinitionOfRoundedValues) {
  for (const Unit* unit : present_units()) {
    for (const ConvShape& shape : layer_shapes()) {
      if (shape.groups == 1) check_passes(*unit, shape, 7);
    }
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
    for (const Unit* unit : present_units()) check_passes(*unit, s, static_cast<unsigned>(i));
  }
}

// More pixels than a task takes at a time, and several parts of the gradient.
TEST(ConvBf16, MatchesDefinitionForManyPixels) {
  for (const Unit* unit : present_units()) {
    check_passes(*unit, image(6, 19, 23, 16, 16, 3, 1, 1), 3);
    check_passes(*unit, image(5, 23, 19, 3, 20, 5, 2, 2), 4);
    check_passes(*unit, image(5, 11, 11, 80, 48, 3, 1, 1), 5);
  }
}

// Run by the test below.
TEST(ConvBf16, DISABLED_WritesBits) {
  BitWriter out;
  const Unit& unit = *present_units().front();
  for (const ConvShape& s : {image(7, 12, 12, 64, 96, 3, 1, 1), image(5, 9, 9, 32, 160, 3, 2, 1)}) {
    Passes passes(s, 2);
    passes.run(unit);
    for (const auto* values : {&passes.y, &passes.dx, &passes.dweights, &passes.dbias}) out.write(*values);
  }
}
TEST(ConvBf16, HasTheSameBitsWithAnyNumberOfThreads) {
  expect_same_bits_with_any_threads("ConvBf16.DISABLED_WritesBits", 100000);
}

// A network reserves memory for its largest batch.
TEST(ConvBf16, WorkspaceServesSmallerBatches) {
  for (const ConvShape& s :
       {image(100, 32, 32, 16, 16, 3, 1, 1), image(100, 8, 8, 300, 256, 3, 2, 1), image(100, 1, 1, 40, 60, 1)}) {
    const std::size_t enough = host::bf16::conv_workspace(s);
    for (int batch = 1; batch < 100; ++batch)
      EXPECT_LE(host::bf16::conv_workspace(s.with_batch(batch)), enough) << batch;
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
  for (const Unit* unit : present_units()) {
    std::vector<float> sums(static_cast<std::size_t>(rows * pitch), 1);
    const host::bf16::Session session(*unit);
    const std::uint16_t* blocks[row_blocks];
    for (int i = 0; i < row_blocks; ++i) blocks[i] = left + i * steps * host::bf16::tile_values;
    const long left_steps[steps] = {0, host::bf16::tile_values, 2L * host::bf16::tile_values,
                                    3L * host::bf16::tile_values};
    session.multiply({blocks, left_steps, host::bf16::tile_depth, row_blocks, right, steps * host::bf16::tile_values,
                      column_blocks, steps, sums.data(), pitch, true});
    expect_near(expected, sums, 1e-6, unit->name);
    session.multiply({blocks, left_steps, host::bf16::tile_depth, row_blocks, right, steps * host::bf16::tile_values,
                      column_blocks, steps, sums.data(), pitch, false});
    std::vector<double> alone = expected;
    for (int i = 0; i < rows * pitch; ++i) alone[i] -= i % pitch < columns ? 1 : 0;
    expect_near(alone, sums, 1e-6, unit->name);
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
  std::uint32_t pairs[16];
  host::bf16::round_row(a.data(), row);
  host::bf16::round_pairs(a.data(), b.data(), pairs);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(row[i], bf16_of(a[i]));
    EXPECT_EQ(pairs[i], bf16_of(a[i]) | static_cast<std::uint32_t>(bf16_of(b[i])) << 16U);
  }
}

}  // namespace
}  // namespace halograd::conv_bf16_test
