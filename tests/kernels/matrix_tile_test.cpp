#include "kernels/device/matrix_tile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "kernels/device/conv.hpp"
#include "kernels/device/conv_products.hpp"
#include "kernels/device/tile_choice.hpp"
#include "tests/kernels/conv_reference.hpp"

namespace halograd::matrix_tile_test {
namespace {

/// The three passes of one convolution of values stored as T, and what they are of the values that Format rounds to:
/// exact in float.
template <class Format, class T = float>
struct Passes {
  ConvShape shape;
  Reference rounded;
  Buffer<T> x, dy, y, dx;
  Buffer<float> weights, bias, dweights;

  explicit Passes(const ConvShape& s) : shape(s), rounded(s, 7) {
    const Reference given(s, 7);
    x = device_values<T>(given.x);
    weights = device_values<float>(given.weights);
    bias = device_values<float>(given.bias);
    dy = device_values<T>(given.dy);
    y = Buffer<T>("y", given.y.size());
    dx = Buffer<T>("dx", given.x.size());
    dweights = Buffer<float>("dweights", given.weights.size());
    for (auto* values : {&rounded.x, &rounded.weights, &rounded.dy}) {
      for (double& value : *values) value = Format::rounded(static_cast<float>(value));
    }
    rounded.compute(s);
  }
};

/// The bound on the error of sums of `depth` products: matrix units cut off where a processor rounds, once an
/// instruction, and so always to the same side (Fasi et al., Numerical behavior of NVIDIA tensor cores).
double bound(long depth) {
  constexpr long least_depth = 8;  // of an instruction
  const double instructions = static_cast<double>((depth + least_depth - 1) / least_depth);
  return runs_on_host ? 3e-6 : 3e-6 + instructions * std::numeric_limits<float>::epsilon();
}

class MatrixTiles : public ::testing::TestWithParam<ConvShape> {};
INSTANTIATE_TEST_SUITE_P(Layers, MatrixTiles, ::testing::ValuesIn(layer_shapes()));
// Channels in whole chunks: tiles of each width, more than one of them, groups, strides, dilation, depths that wrap.
INSTANTIATE_TEST_SUITE_P(Chunks, MatrixTiles,
                         ::testing::Values(image(2, 9, 7, 24, 40, 3, 1, 1), image(2, 12, 12, 64, 136, 3, 1, 1),
                                           image(3, 8, 8, 136, 64, 1), image(2, 15, 15, 3, 16, 7, 2, 3),
                                           image(2, 9, 9, 40, 24, 3, 2, 1), image(2, 11, 9, 16, 72, 3, 3, 2, 2),
                                           image(2, 7, 7, 64, 96, 3, 1, 1, 1, 4), image(40, 1, 1, 256, 88, 1),
                                           volume(48, 24, 3)));

// Groups of fewer than four channels have no tiles. What is stored as bf16 is rounded once more.
template <class Format, class T = float>
void check_precision(ConvShape s, Precision precision) {
  if (!runs_on_host && !computes_in(precision)) GTEST_SKIP() << "not on this device";
  s.precision = precision;
  const Passes<Format, T> p(s);
  const ExecutionSpace exec;
  const Buffer<std::byte> workspace("workspace", device::conv_workspace<T>(s));
  device::conv_forward<T>(exec, s, p.x, p.weights, p.bias, false, p.y, workspace);
  const long taps = s.taps();
  if (s.filters / s.groups >= 4)
    expect_near(p.rounded.y, p.y, storage_rounding<T> + bound(taps * s.channels / s.groups), "y");
  device::conv_backward_data<T>(exec, s, p.dy, p.weights, {}, p.dx, false, workspace);
  if (s.channels / s.groups >= 4)
    expect_near(p.rounded.dx, p.dx, storage_rounding<T> + bound(taps * s.filters / s.groups), "dx");
  device::conv_backward_weights<T>(exec, s, p.x, p.dy, p.dweights, {}, workspace);
  if (s.filters / s.groups >= 4) expect_near(p.rounded.dweights, p.dweights, bound(s.out_pixels()), "dweights");
}
TEST_P(MatrixTiles, MatchDefinitionOfRoundedValuesInTf32) {
  check_precision<device::Tf32>(GetParam(), Precision::tf32);
}
TEST_P(MatrixTiles, MatchDefinitionOfRoundedValuesInBf16) {
  check_precision<device::Bf16>(GetParam(), Precision::bf16);
}
TEST_P(MatrixTiles, MatchDefinitionOfStoredValuesInBf16) {
  check_precision<device::Bf16, Bfloat16>(GetParam(), Precision::bf16);
}

// Parameters lie one behind the other, so those of a layer may begin at any place.
TEST(CopiedTiles, StoreGradientsOfWeightsThatBeginAnywhere) {
  ConvShape s = image(1, 4, 4, 8, 16, 3, 1, 1);
  s.precision = Precision::bf16;
  const Passes<device::Bf16, Bfloat16> p(s);
  const Buffer<float> parameters("parameters", p.dweights.size() + 1);
  const auto dweights = slice(parameters, 1, p.dweights.size());
  const Buffer<std::byte> workspace("workspace", device::conv_workspace<Bfloat16>(s));
  device::conv_backward_weights<Bfloat16>(ExecutionSpace(), s, p.x, p.dy, dweights, {}, workspace);
  expect_near(p.rounded.dweights, to_host(dweights), bound(s.out_pixels()), "dweights");
}

// By AMD's tiles, which a build for cores chooses for nothing.
template <class Instruction>
void check_instruction(const ConvShape& s) {
  using device::multiply_on_matrix_units;
  const Passes<Instruction> p(s);
  const ExecutionSpace exec;
  multiply_on_matrix_units<Instruction>(
      exec, "test::y",
      device::ForwardProduct<float>(s, p.x.data(), p.weights.data(), p.bias.data(), false, p.y.data()));
  expect_near(p.rounded.y, p.y, 3e-6, "y");
  device::for_each_phase(s, [&](const device::Phase& phase) {
    multiply_on_matrix_units<Instruction>(
        exec, "test::dx",
        device::DataProduct<float>(s, phase, p.dy.data(), p.weights.data(), nullptr, false, p.dx.data()));
  });
  expect_near(p.rounded.dx, p.dx, 3e-6, "dx");
  multiply_on_matrix_units<Instruction>(
      exec, "test::dweights",
      device::WeightProduct<float>(s, p.x.data(), p.dy.data(), p.dweights.data(), 1, s.out_pixels()));
  expect_near(p.rounded.dweights, p.dweights, 3e-6, "dweights");
}
#if !defined(KOKKOS_ENABLE_CUDA)
TEST_P(MatrixTiles, OfAmdMatchDefinitionInFloat) {
  check_instruction<device::MfmaFp32>(GetParam());
}
TEST_P(MatrixTiles, OfAmdMatchDefinitionOfRoundedValuesInBf16) {
  check_instruction<device::MfmaBf16>(GetParam());
}
#endif

// A network reserves memory for its largest batch.
template <class T>
void expect_enough_for_smaller_batches() {
  for (const ConvShape& s : {image(500, 28, 28, 1, 24, 5), image(300, 12, 12, 20, 50, 5), image(300, 1, 1, 800, 500, 1),
                             image(300, 8, 8, 300, 256, 3, 2, 1), image(300, 9, 9, 96, 96, 3, 1, 1, 1, 96)}) {
    const std::size_t enough = device::conv_workspace<T>(s);
    for (int batch = 1; batch < s.batch; ++batch) {
      ASSERT_LE(device::conv_workspace<T>(s.with_batch(batch)), enough) << ::testing::PrintToString(s) << ' ' << batch;
    }
  }
}
TEST(DeviceConvolutions, WorkspaceServesSmallerBatches) {
  expect_enough_for_smaller_batches<float>();
  expect_enough_for_smaller_batches<double>();
  expect_enough_for_smaller_batches<Bfloat16>();
}

using Places = std::vector<std::pair<int, int>>;

/// Where `entry` puts words 0, 1, ... of one thread.
Places places(device::Entry (*entry)(int thread, int word), int thread, int words) {
  Places found;
  for (int word = 0; word < words; ++word) {
    const device::Entry at = entry(thread, word);
    found.emplace_back(at.row, at.column);
  }
  return found;
}

/// Each entry of a (rows, columns) fragment is one thread's, and all threads' entries lie as those of the first do.
void expect_whole(device::Entry (*entry)(int thread, int word), int threads, int words, int rows, int columns) {
  std::set<std::pair<int, int>> seen;
  for (int thread = 0; thread < threads; ++thread) {
    for (int word = 0; word < words; ++word) {
      const device::Entry first = entry(thread, 0), offset = entry(0, word);
      const auto [row, column] = entry(thread, word);
      EXPECT_EQ(row, first.row + offset.row);
      EXPECT_EQ(column, first.column + offset.column);
      EXPECT_TRUE(row >= 0 && row < rows && column >= 0 && column < columns) << row << ", " << column;
      EXPECT_TRUE(seen.emplace(row, column).second) << row << ", " << column << " twice";
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(rows * columns));
}
template <class Layout>
void expect_whole_layout() {
  expect_whole(Layout::a, Layout::threads, Layout::a_words, Layout::rows, 8);
  expect_whole(Layout::b, Layout::threads, Layout::b_words, 8, Layout::columns);
  expect_whole(Layout::c, Layout::threads, 4, Layout::rows, Layout::columns);
}

// Words of TF32, whose rows and columns the PTX ISA's figures of mma.m16n8k8 name for thread 13 (group 3, 1 in it).
TEST(MatrixLayouts, OfNvidiaAreThoseOfThePtxIsa) {
  using Layout = device::MmaLayout;
  expect_whole_layout<Layout>();
  EXPECT_EQ(places(Layout::a, 13, 4), (Places{{3, 1}, {11, 1}, {3, 5}, {11, 5}}));
  EXPECT_EQ(places(Layout::b, 13, 2), (Places{{1, 3}, {5, 3}}));
  EXPECT_EQ(places(Layout::c, 13, 4), (Places{{3, 2}, {3, 3}, {11, 2}, {11, 3}}));
}

// Thread 37 of v_mfma_f32_16x16x16bf16_1k by AMD's calculator: A[5][8 to 11], B[8 to 11][5], D[8 to 11][5]; a word has
// two.
TEST(MatrixLayouts, OfAmdAreThoseOfItsCalculator) {
  using Layout = device::MfmaLayout;
  expect_whole_layout<Layout>();
  EXPECT_EQ(places(Layout::a, 37, 2), (Places{{5, 4}, {5, 5}}));
  EXPECT_EQ(places(Layout::b, 37, 2), (Places{{4, 5}, {5, 5}}));
  EXPECT_EQ(places(Layout::c, 37, 4), (Places{{8, 5}, {9, 5}, {10, 5}, {11, 5}}));
}

template <class Format>
void expect_not_finite_stays() {
  EXPECT_EQ(Format::rounded(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(Format::rounded(std::numeric_limits<float>::quiet_NaN())));
}
TEST(Tf32, RoundsToTenBitsOfFractionTiesAway) {
  EXPECT_EQ(device::Tf32::rounded(1.0F + 0x1p-10F), 1.0F + 0x1p-10F);
  EXPECT_EQ(device::Tf32::rounded(1.0F + 0x1p-11F), 1.0F + 0x1p-10F);
  EXPECT_EQ(device::Tf32::rounded(-1.0F - 0x1p-11F), -1.0F - 0x1p-10F);
  EXPECT_EQ(device::Tf32::rounded(1.0F + 0x1p-11F - 0x1p-20F), 1.0F);
  EXPECT_EQ(device::Tf32::rounded(0x1.fffffep0F), 2.0F);
  expect_not_finite_stays<device::Tf32>();
}
TEST(Bf16, RoundsToSevenBitsOfFractionTiesToEven) {
  EXPECT_EQ(device::Bf16::rounded(1.0F + 0x1p-7F), 1.0F + 0x1p-7F);
  EXPECT_EQ(device::Bf16::rounded(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(device::Bf16::rounded(1.0F + 0x3p-8F), 1.0F + 0x1p-6F);
  EXPECT_EQ(device::Bf16::rounded(-1.0F - 0x1p-8F - 0x1p-20F), -1.0F - 0x1p-7F);
  EXPECT_EQ(device::Bf16::rounded(0x1.fffffep0F), 2.0F);
  expect_not_finite_stays<device::Bf16>();
}

}  // namespace
}  // namespace halograd::matrix_tile_test
