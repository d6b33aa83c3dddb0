#include "kernels/group_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::group_norm_test {
namespace {

constexpr double epsilon = 1e-5;

std::size_t values_of(const GroupNormShape& s) {
  return static_cast<std::size_t>(s.samples * s.rows * s.channels);
}

template <class T>
struct Result {
  std::vector<T> y, dx, added;
  std::vector<Wide<T>> dscale, dshift;
};

template <class T>
Result<T> run(const GroupNormShape& s, const std::vector<T>& x, const std::vector<Wide<T>>& scale,
              const std::vector<Wide<T>>& shift, const std::vector<T>& dy, const std::vector<T>& before) {
  const ExecutionSpace exec;
  const auto dx = to_device(dy), added = to_device(before), in = to_device(x), gradient = to_device(dy);
  const Buffer<T> y("y", x.size());
  const Buffer<Wide<T>> mean("mean", s.statistics()), spread("spread", s.statistics()), dscale("dscale", s.channels),
      dshift("dshift", s.channels);
  const Buffer<double> workspace("workspace", group_norm_workspace(s));
  const auto factors = to_device(scale), terms = to_device(shift);
  group_norm_forward<T>(exec, {.shape = s,
                               .x = in,
                               .scale = factors,
                               .shift = terms,
                               .epsilon = epsilon,
                               .saved_mean = mean,
                               .saved_inverse_std = spread,
                               .y = y,
                               .workspace = workspace});
  GroupNormBackward<T> backward{.shape = s,
                                .x = in,
                                .dy = gradient,
                                .scale = factors,
                                .saved_mean = mean,
                                .saved_inverse_std = spread,
                                .dx = added,
                                .dscale = dscale,
                                .dshift = dshift,
                                .accumulate = true,
                                .workspace = workspace};
  group_norm_backward(exec, backward);
  backward.dy = backward.dx = dx;
  backward.accumulate = false;
  group_norm_backward(exec, backward);
  exec.fence();
  return {to_host(y), to_host(dx), to_host(added), to_host(dscale), to_host(dshift)};
}

std::vector<double> plain_forward(const GroupNormShape& s, const std::vector<double>& x,
                                  const std::vector<double>& scale, const std::vector<double>& shift) {
  std::vector<double> y(x.size());
  const int width = s.channels / s.groups;
  for (long n = 0; n < s.samples; ++n)
    for (int g = 0; g < s.groups; ++g) {
      const auto at = [&](long i) {
        return static_cast<std::size_t>((n * s.rows + i / width) * s.channels + g * width + i % width);
      };
      const long count = s.rows * width;
      double mean = 0, variance = 0;
      for (long i = 0; i < count; ++i) mean += x[at(i)] / static_cast<double>(count);
      for (long i = 0; i < count; ++i) variance += std::pow(x[at(i)] - mean, 2) / static_cast<double>(count);
      for (long i = 0; i < count; ++i) {
        const int c = static_cast<int>(g * width + i % width);
        y[at(i)] = (x[at(i)] - mean) / std::sqrt(variance + epsilon) * scale[c] + shift[c];
      }
    }
  return y;
}

class GroupNormTest : public ::testing::TestWithParam<GroupNormShape> {};

TEST_P(GroupNormTest, ForwardAgreesWithAPlainLoop) {
  const GroupNormShape& s = GetParam();
  const auto x = noise<double>(values_of(s), 1, -1, 3), scale = noise<double>(s.channels, 2, 0.5, 2),
             shift = noise<double>(s.channels, 3), dy = noise<double>(x.size(), 4);
  const auto expected = plain_forward(s, x, scale, shift);
  const auto found = run<double>(s, x, scale, shift, dy, dy).y;
  const auto narrow = [](const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); };
  const auto single = run<float>(s, narrow(x), narrow(scale), narrow(shift), narrow(dy), narrow(dy)).y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-11) << i;
    ASSERT_NEAR(single[i], expected[i], 2e-5) << i;
  }
}

TEST_P(GroupNormTest, BackwardAgreesWithCentralDifferences) {
  const GroupNormShape& s = GetParam();
  const auto x = noise<double>(values_of(s), 5, -1, 3), scale = noise<double>(s.channels, 6, 0.5, 2),
             shift = noise<double>(s.channels, 7), dy = noise<double>(x.size(), 8), before = noise<double>(x.size(), 9);
  const auto found = run<double>(s, x, scale, shift, dy, before);
  expect_gradient([&](const auto& v) { return dot(dy, plain_forward(s, v, scale, shift)); }, x, found.dx, 2e-6);
  expect_gradient([&](const auto& v) { return dot(dy, plain_forward(s, x, v, shift)); }, scale, found.dscale, 2e-6);
  expect_gradient([&](const auto& v) { return dot(dy, plain_forward(s, x, scale, v)); }, shift, found.dshift, 2e-6);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(found.added[i], before[i] + found.dx[i], 1e-12) << i;
}

template <class T>
void expect_near(const std::vector<T>& found, const std::vector<double>& expected, const char* what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double size = std::abs(expected[i]);
    ASSERT_NEAR(found[i], expected[i], 2e-5 * (1 + size) + storage_rounding<T> * size) << what << " " << i;
  }
}

TEST_P(GroupNormTest, ValuesStoredAsBf16AreRoundedOnce) {
  const GroupNormShape& s = GetParam();
  const auto x = noise<Bfloat16>(values_of(s), 10, -1, 3), dy = noise<Bfloat16>(x.size(), 11),
             before = noise<Bfloat16>(x.size(), 12);
  const auto scale = noise<float>(s.channels, 13, 0.5, 2), shift = noise<float>(s.channels, 14);
  const auto wide = [](const auto& v) { return std::vector<double>(v.begin(), v.end()); };
  const auto found = run<Bfloat16>(s, x, scale, shift, dy, before);
  const auto expected = run<double>(s, wide(x), wide(scale), wide(shift), wide(dy), wide(before));
  expect_near(found.y, plain_forward(s, wide(x), wide(scale), wide(shift)), "y");
  expect_near(found.dx, expected.dx, "dx");
  expect_near(found.added, expected.added, "added");
  expect_near(found.dscale, expected.dscale, "dscale");
  expect_near(found.dshift, expected.dshift, "dshift");
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupNormTest,
                         ::testing::Values(GroupNormShape{2, 9, 12, 3}, GroupNormShape{3, 5, 7, 1},
                                           GroupNormShape{2, 4, 6, 6},    // instance normalisation
                                           GroupNormShape{50, 1, 17, 1},  // layer normalisation of pixels
                                           GroupNormShape{1, 3000, 8, 2}, GroupNormShape{300, 3, 2, 1}));

TEST(GroupNormEdgeTest, DataFarFromZeroKeepTheirVariance) {
  const GroupNormShape s{1, 64, 4, 2};
  auto x = noise<float>(values_of(s), 1);
  for (float& value : x) value = 1000 + value;
  const std::vector<double> wide(x.begin(), x.end());
  const auto expected = plain_forward(s, wide, {1, 1, 1, 1}, {0, 0, 0, 0});
  const auto found = run<float>(s, x, {1, 1, 1, 1}, {0, 0, 0, 0}, x, x).y;
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-4) << i;
}

TEST(GroupNormEdgeTest, RefusesWhatDoesNotFit) {
  const Buffer<float> x("x", 24), c("c", 4), statistics("statistics", 8);
  const Buffer<double> workspace("workspace", 1000);
  const auto forward = [&](const GroupNormShape& s, const Buffer<double>& scratch) {
    group_norm_forward<float>(ExecutionSpace(), {.shape = s,
                                                 .x = x,
                                                 .scale = c,
                                                 .shift = c,
                                                 .epsilon = epsilon,
                                                 .saved_mean = statistics,
                                                 .saved_inverse_std = statistics,
                                                 .y = x,
                                                 .workspace = scratch});
  };
  EXPECT_THROW(forward({2, 3, 4, 3}, workspace), Error);
  EXPECT_THROW(forward({2, 4, 4, 2}, workspace), Error);
  EXPECT_THROW(forward({2, 3, 4, 2}, Buffer<double>("short", 1)), Error);
}

}  // namespace
}  // namespace halograd::group_norm_test
