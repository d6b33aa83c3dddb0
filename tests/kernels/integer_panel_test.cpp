#include "kernels/host/integer_panel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#if defined(HALOGRAD_INTEGER_PANELS)

namespace halograd::integer_panel_test {
namespace {

using host::integer_limit;
using host::integer_rows;
using host::lanes;

constexpr int columns = 32;

/// A product of panels, (rows, depth) and (depth, columns).
struct Panels {
  int rows, depth;
  std::vector<float> left, right, out;
  Panels(int rows_of_left, int depth_of_both) : rows(rows_of_left), depth(depth_of_both) {
    left.resize(static_cast<std::size_t>(whole_rows()) * whole_depth());
    right.resize(static_cast<std::size_t>(depth) * columns);
    out.resize(static_cast<std::size_t>(whole_rows()) * columns, 1);
  }
  [[nodiscard]] int whole_rows() const { return (rows + integer_rows - 1) / integer_rows * integer_rows; }
  [[nodiscard]] int whole_depth() const { return (depth + lanes<float> - 1) / lanes<float> * lanes<float>; }
  float& left_at(int m, int d) { return left[static_cast<std::size_t>(m) * whole_depth() + d]; }
  float& right_at(int d, int column) { return right[static_cast<std::size_t>(d) * columns + column]; }

  void multiply(bool accumulate) {
    std::vector<std::int16_t> integers(left.size());
    std::vector<float> row_scales(static_cast<std::size_t>(whole_rows())), column_scales(columns), pairs = right;
    const float limit = integer_limit(depth);
    host::round_to_rows(left.data(), whole_depth(), rows, whole_depth(), limit, integers.data(), whole_depth(),
                        row_scales.data(), 1);
    for (int c = 0; c < columns; c += lanes<float>) {
      host::round_to_columns(pairs.data() + c, columns, depth, limit, pairs.data() + c, columns,
                             column_scales.data() + c);
    }
    host::Prefetch none;
    host::multiply_integer_panel(columns / lanes<float>, rows,
                                 {.pairs = (depth + 1) / 2,
                                  .left = integers.data(),
                                  .left_step = whole_depth(),
                                  .left_pair = 2,
                                  .right = reinterpret_cast<const std::int16_t*>(pairs.data()),
                                  .right_pair = 2L * columns,
                                  .row_scales = row_scales.data(),
                                  .column_scales = column_scales.data(),
                                  .out = out.data(),
                                  .out_pitch = columns,
                                  .accumulate = accumulate},
                                 none, [] {});
  }
};

class IntegerPanel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!host::multiplies_integers()) GTEST_SKIP() << "this CPU has no AVX512_VNNI";
  }
};

// Against sums in double, within what each product's two roundings may add.
TEST_F(IntegerPanel, IsAProductWithinItsRounding) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  for (const int depth : {1, 2, 31, 64, 128, 129, 300}) {
    for (const bool accumulate : {false, true}) {
      Panels p(13, depth);
      for (float& value : p.right) value = normal(generator) * 1e-3F;
      for (int m = 0; m < p.rows; ++m) {
        for (int d = 0; d < depth; ++d) p.left_at(m, d) = normal(generator) * static_cast<float>(1 << m);
      }
      p.multiply(accumulate);
      const double step = 0.5 / integer_limit(depth);
      for (int m = 0; m < p.rows; ++m) {
        for (int c = 0; c < columns; ++c) {
          double sum = accumulate ? 1 : 0, sizes = 0, largest_left = 0, largest_right = 0;
          for (int d = 0; d < depth; ++d) {
            largest_left = std::max(largest_left, std::abs(double{p.left_at(m, d)}));
            largest_right = std::max(largest_right, std::abs(double{p.right_at(d, c)}));
          }
          for (int d = 0; d < depth; ++d) {
            sum += double{p.left_at(m, d)} * p.right_at(d, c);
            sizes += std::abs(p.left_at(m, d)) * largest_right + std::abs(p.right_at(d, c)) * largest_left;
          }
          EXPECT_NEAR(p.out[m * columns + c], sum, 1.01 * step * sizes + 1e-6) << depth << ": " << m << ", " << c;
        }
      }
    }
  }
}

// The largest sums that there can be.
TEST_F(IntegerPanel, DoesNotOverflow) {
  for (const int depth : {1, 2, 63, 64, 128, 256, 1000}) {
    Panels p(integer_rows, depth);
    std::fill(p.right.begin(), p.right.end(), -3.0F);
    for (int m = 0; m < p.rows; ++m) {
      for (int d = 0; d < depth; ++d) p.left_at(m, d) = 7.0F;
    }
    p.multiply(false);
    for (const float value : p.out) EXPECT_NEAR(value, -21.0F * depth, 21e-6 * depth) << depth;
  }
}

TEST_F(IntegerPanel, RowsOfZerosAreZero) {
  Panels p(integer_rows, 40);
  std::fill(p.right.begin(), p.right.end(), 1.0F);
  p.multiply(false);
  for (const float value : p.out) EXPECT_EQ(value, 0.0F);
}

TEST_F(IntegerPanel, WhatIsNotFiniteIsNotHidden) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Panels p(integer_rows, 40);
    std::fill(p.left.begin(), p.left.end(), 1.0F);
    std::fill(p.right.begin(), p.right.end(), 1.0F);
    p.left_at(2, 7) = p.right_at(9, 20) = value;
    p.multiply(false);
    for (int m = 0; m < p.rows; ++m) {
      for (int c = 0; c < columns; ++c) {
        EXPECT_EQ(std::isfinite(p.out[m * columns + c]), m != 2 && c != 20) << m << ", " << c;
      }
    }
  }
}

}  // namespace
}  // namespace halograd::integer_panel_test

#endif
