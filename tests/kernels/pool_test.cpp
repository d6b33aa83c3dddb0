#include "kernels/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd {

/// How GoogleTest names the shape of a failing case.
void PrintTo(const PoolShape& s, std::ostream* out) {
  *out << s.batch << "x" << ::testing::PrintToString(s.extent) << "x" << s.channels << " window "
       << ::testing::PrintToString(s.kernel) << " stride " << ::testing::PrintToString(s.stride) << " padding "
       << ::testing::PrintToString(s.padding);
}

namespace pool_test {
namespace {

/// Height and width, then what a volume has besides.
struct Case {
  int batch, height, width, channels, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
  int depth = 1, kernel_d = 1, stride_d = 1, pad_d = 0;
  operator PoolShape() const {  // NOLINT(google-explicit-constructor): the tables below list cases as shapes
    PoolShape shape;
    shape.batch = batch;
    shape.channels = channels;
    shape.extent = {depth, height, width};
    shape.kernel = {kernel_d, kernel_h, kernel_w};
    shape.stride = {stride_d, stride_h, stride_w};
    shape.padding = {pad_d, pad_h, pad_w};
    return shape;
  }
};

std::size_t input_size(const PoolShape& s) {
  return static_cast<std::size_t>(s.in_pixels() * s.channels);
}
std::size_t output_size(const PoolShape& s) {
  return static_cast<std::size_t>(s.out_pixels() * s.channels);
}

/// Calls visit(output, input, place) for each input in each window, windows and places in order.
template <class Visit>
void visit_windows(const PoolShape& s, const Visit& visit) {
  std::size_t output = 0;
  const auto out = s.out_extent();
  for (int n = 0; n < s.batch; ++n)
    for (int o = 0; o < out[0]; ++o)
      for (int p = 0; p < out[1]; ++p)
        for (int q = 0; q < out[2]; ++q)
          for (int c = 0; c < s.channels; ++c, ++output)
            for (int place = 0; place < s.taps(); ++place) {
              const int plane = o * s.stride[0] - s.padding[0] + place / (s.kernel[1] * s.kernel[2]);
              const int row = p * s.stride[1] - s.padding[1] + place / s.kernel[2] % s.kernel[1];
              const int column = q * s.stride[2] - s.padding[2] + place % s.kernel[2];
              if (plane < 0 || plane >= s.extent[0] || row < 0 || row >= s.extent[1] || column < 0 ||
                  column >= s.extent[2])
                continue;
              const std::size_t pixel =
                  ((std::size_t(n) * s.extent[0] + plane) * s.extent[1] + row) * s.extent[2] + column;
              visit(output, pixel * s.channels + c, place);
            }
}

template <class T>
struct PlainMax {
  std::vector<T> y;
  std::vector<std::uint8_t> which;
  std::vector<std::size_t> winner;
};

template <class T>
PlainMax<T> plain_max(const PoolShape& s, const std::vector<T>& x) {
  PlainMax<T> result{std::vector<T>(output_size(s), T(-std::numeric_limits<float>::infinity())),
                     std::vector<std::uint8_t>(output_size(s)), std::vector<std::size_t>(output_size(s))};
  visit_windows(s, [&](std::size_t output, std::size_t input, int place) {
    if (x[input] > result.y[output]) {
      result.y[output] = x[input];
      result.which[output] = static_cast<std::uint8_t>(place);
      result.winner[output] = input;
    }
  });
  return result;
}

class PoolTest : public ::testing::TestWithParam<PoolShape> {};

template <class T>
void expect_near(T found, double expected, std::size_t i) {
  EXPECT_NEAR(found, expected, 4 * tolerance<T> + storage_rounding<T> * std::abs(expected)) << i;
}

template <class T>
void check_max(const PoolShape& s) {
  const ExecutionSpace exec;
  const auto x = noise<T>(input_size(s), 1, -2, -1);  // below zero: padding must not win
  const auto plain = plain_max(s, x);
  const Buffer<T> y("y", output_size(s));
  const Buffer<std::uint8_t> which("which", output_size(s));
  max_pool_forward<T>(exec, s, to_device(x), false, y, which);
  exec.fence();
  EXPECT_EQ(to_host(y), plain.y);
  EXPECT_EQ(to_host(which), plain.which);

  const auto dy = noise<T>(output_size(s), 2);
  const auto before = noise<T>(input_size(s), 3);
  std::vector<double> expected(input_size(s));
  for (std::size_t i = 0; i < dy.size(); ++i) expected[plain.winner[i]] += dy[i];
  const auto device_dy = to_device(dy);
  const auto overwritten = to_device(before);
  const auto added = to_device(before);
  max_pool_backward<T>(exec, s, device_dy, which, overwritten, false);
  max_pool_backward<T>(exec, s, device_dy, which, added, true);
  exec.fence();
  const auto dx = to_host(overwritten);
  const auto sum = to_host(added);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    expect_near(dx[i], expected[i], i);
    expect_near(sum[i], before[i] + expected[i], i);
  }
}

template <class T>
void check_avg(const PoolShape& s) {
  const ExecutionSpace exec;
  const double share = 1.0 / (s.taps());
  const auto x = noise<T>(input_size(s), 4);
  const auto dy = noise<T>(output_size(s), 5);
  const auto before = noise<T>(input_size(s), 6);
  std::vector<double> expected_y(output_size(s));
  std::vector<double> expected_dx(input_size(s));
  visit_windows(s, [&](std::size_t output, std::size_t input, int) {
    expected_y[output] += share * x[input];
    expected_dx[input] += share * dy[output];
  });
  const Buffer<T> y("y", output_size(s));
  const auto device_dy = to_device(dy);
  const auto overwritten = to_device(before);
  const auto added = to_device(before);
  avg_pool_forward<T>(exec, s, to_device(x), y);
  avg_pool_backward<T>(exec, s, device_dy, overwritten, false);
  avg_pool_backward<T>(exec, s, device_dy, added, true);
  exec.fence();
  const auto found = to_host(y);
  const auto dx = to_host(overwritten);
  const auto sum = to_host(added);
  for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected_y[i], i);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    expect_near(dx[i], expected_dx[i], i);
    expect_near(sum[i], before[i] + expected_dx[i], i);
  }
}

TEST_P(PoolTest, MaxAgreesWithAPlainLoop) {
  check_max<float>(GetParam());
  check_max<double>(GetParam());
  check_max<Bfloat16>(GetParam());
}

TEST_P(PoolTest, AvgAgreesWithAPlainLoop) {
  check_avg<float>(GetParam());
  check_avg<double>(GetParam());
  check_avg<Bfloat16>(GetParam());
}

/// sum(weights * y) for y of max or average pooling.
double objective(const PoolShape& s, const std::vector<double>& x, const std::vector<double>& weights, bool max) {
  const ExecutionSpace exec;
  const Buffer<double> y("y", output_size(s));
  const Buffer<std::uint8_t> which("which", output_size(s));
  if (max) {
    max_pool_forward<double>(exec, s, to_device(x), false, y, which);
  } else {
    avg_pool_forward<double>(exec, s, to_device(x), y);
  }
  exec.fence();
  const auto values = to_host(y);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  return sum;
}

TEST_P(PoolTest, BackwardAgreesWithCentralDifferences) {
  const PoolShape& s = GetParam();
  const ExecutionSpace exec;
  // Distinct values further apart than the step, so that no maximum changes hands.
  std::vector<double> x(input_size(s));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e-3 * static_cast<double>((i * 7919 + 13) % 15485863 % 100003);
  const auto weights = noise<double>(output_size(s), 7);
  const auto dy = to_device(weights);
  const Buffer<double> max_dx("max_dx", x.size());
  const Buffer<double> avg_dx("avg_dx", x.size());
  const Buffer<double> y("y", output_size(s));
  const Buffer<std::uint8_t> which("which", output_size(s));
  max_pool_forward<double>(exec, s, to_device(x), false, y, which);
  max_pool_backward<double>(exec, s, dy, which, max_dx, false);
  avg_pool_backward<double>(exec, s, dy, avg_dx, false);
  exec.fence();
  const auto max_found = to_host(max_dx);
  const auto avg_found = to_host(avg_dx);
  const double step = 1e-4;
  const std::size_t stride = x.size() / 60 + 1;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    auto up = x;
    auto down = x;
    up[i] += step;
    down[i] -= step;
    for (const bool max : {true, false}) {
      const double slope = (objective(s, up, weights, max) - objective(s, down, weights, max)) / (2 * step);
      EXPECT_NEAR(max ? max_found[i] : avg_found[i], slope, 1e-6 * (1 + std::abs(slope))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PoolTest,
                         ::testing::Values(Case{2, 6, 8, 20, 2, 2, 2, 2, 0, 0},     // exact
                                           Case{1, 24, 24, 3, 2, 2, 2, 2, 0, 0},    // few channels
                                           Case{2, 8, 8, 70, 2, 2, 2, 2, 0, 0},     // more than a tile of channels
                                           Case{3, 7, 5, 17, 2, 2, 2, 2, 0, 0},     // a remainder
                                           Case{2, 7, 6, 4, 2, 2, 2, 2, 1, 1},      // padded
                                           Case{1, 6, 6, 1, 2, 2, 2, 2, 1, 0},      // padded on one axis
                                           Case{2, 9, 9, 5, 3, 3, 2, 2, 1, 1},      // overlapping, padded (ResNet)
                                           Case{1, 5, 7, 3, 3, 3, 1, 1, 1, 1},      // overlapping, stride 1
                                           Case{1, 5, 5, 64, 2, 2, 1, 1, 0, 0},     // overlapping 2 x 2
                                           Case{2, 11, 9, 3, 2, 2, 3, 4, 0, 0},     // gaps
                                           Case{1, 11, 12, 2, 3, 2, 4, 3, 1, 1},    // gaps, padded
                                           Case{2, 8, 8, 33, 8, 8, 8, 8, 0, 0},     // global
                                           Case{1, 9, 4, 1, 3, 1, 2, 3, 2, 0},      // unlike axes
                                           Case{1, 4, 9, 130, 1, 3, 3, 1, 0, 2},    // unlike axes
                                           Case{1, 3, 3, 2, 4, 4, 1, 1, 3, 3},      // window larger than image
                                           Case{1, 16, 16, 1, 16, 16, 1, 1, 0, 0},  // 256 places
                                           Case{1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
                                           Case{0, 4, 4, 3, 2, 2, 2, 2, 0, 0}));  // no images

// Depth, its window, stride and padding stand last.
INSTANTIATE_TEST_SUITE_P(Volumes, PoolTest,
                         ::testing::Values(Case{2, 6, 4, 20, 2, 2, 2, 2, 0, 0, 4, 2, 2, 0},  // exact
                                           Case{2, 5, 6, 3, 2, 2, 2, 2, 0, 0, 5, 2, 2, 0},   // a remainder
                                           Case{1, 7, 5, 17, 3, 3, 2, 2, 1, 1, 6, 3, 2, 1},  // overlapping, padded
                                           Case{2, 6, 6, 4, 2, 2, 2, 2, 0, 0, 3, 1, 1, 0},   // planes alone
                                           Case{2, 4, 5, 4, 2, 2, 2, 2, 0, 0, 5, 2, 1, 0},   // depth overlaps
                                           Case{1, 6, 5, 2, 2, 2, 3, 2, 0, 0, 8, 2, 3, 0},   // gaps
                                           Case{2, 7, 4, 2, 2, 3, 3, 3, 1, 0, 7, 2, 3, 1},   // gaps, padded
                                           Case{1, 6, 6, 33, 6, 6, 6, 6, 0, 0, 6, 6, 6, 0},  // global
                                           Case{1, 1, 9, 3, 1, 3, 1, 2, 0, 1, 4, 2, 2, 1}));

TEST(PoolEdgeTest, TheFirstOfEqualValuesWins) {
  const ExecutionSpace exec;
  for (const int window : {2, 3}) {
    const PoolShape s = Case{1, window, window, 5, window, window, window, window, 0, 0};
    const auto x = to_device(std::vector<float>(input_size(s), 2.0F));
    const Buffer<float> y("y", 5);
    const Buffer<std::uint8_t> which("which", 5);
    max_pool_forward<float>(exec, s, x, false, y, which);
    exec.fence();
    EXPECT_EQ(to_host(which), std::vector<std::uint8_t>(5, 0));
  }
}

template <class T>
void check_not_a_number() {
  const ExecutionSpace exec;
  constexpr int channels = 21;  // packs and a remainder
  for (const int window : {2, 3}) {
    for (int place = 0; place < window * window; ++place) {
      const PoolShape s = Case{1, window, window, channels, window, window, window, window, 0, 0};
      auto x = noise<T>(input_size(s), 9);
      std::fill_n(x.begin() + place * channels, channels, T(std::nanf("")));
      const Buffer<T> y("y", channels);
      const Buffer<std::uint8_t> which("which", channels);
      max_pool_forward<T>(exec, s, to_device(x), false, y, which);
      exec.fence();
      for (const T value : to_host(y)) EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(to_host(which), std::vector<std::uint8_t>(channels, place));
    }
  }
}

TEST(PoolEdgeTest, NotANumberWins) {
  check_not_a_number<float>();
  check_not_a_number<Bfloat16>();
}

TEST(PoolEdgeTest, RefusesShapesThatMakeNoSense) {
  const ExecutionSpace exec;
  const Buffer<float> x("x", 10000);
  const Buffer<std::uint8_t> which("which", 10000);
  const Case bad[] = {
      {1, 4, 4, 1, 5, 2, 1, 1, 0, 0},                 // window larger than the image
      {1, 4, 4, 1, 2, 2, 0, 1, 0, 0},                 // no stride
      {1, 4, 4, 1, 2, 2, 1, 1, 2, 0},                 // windows of padding alone
      {1, 4, 4, 1, 2, 2, 1, 1, 0, -1},                // negative padding
      {1, 4, 4, 1, 0, 2, 1, 1, 0, 0},                 // no window
      {1, 40, 40, 1, 17, 16, 1, 1, 0, 0},             // more places than a byte has
      {9, 40, 40, 1, 2, 2, 2, 2, 0, 0},               // more images than the buffer has
      {1, 20, 20, 1, 2, 2, 2, 2, 0, 0, 4, 5, 1, 0},   // window deeper than the volume
      {1, 20, 20, 1, 8, 8, 8, 8, 0, 0, 20, 5, 1, 0},  // more places than a byte has
      {1, 20, 20, 1, 2, 2, 2, 2, 0, 0, 40, 2, 2, 0},  // more planes than the buffer has
  };
  for (const PoolShape s : bad) {
    EXPECT_THROW(max_pool_forward<float>(exec, s, x, false, x, which), Error) << ::testing::PrintToString(s);
    EXPECT_THROW(max_pool_backward<float>(exec, s, x, which, x, false), Error) << ::testing::PrintToString(s);
  }
  EXPECT_THROW(avg_pool_forward<float>(exec, bad[0], x, x), Error);
  EXPECT_THROW(avg_pool_backward<float>(exec, bad[6], x, x, false), Error);
  const PoolShape good = Case{1, 4, 4, 1, 2, 2, 2, 2, 0, 0};
  const Buffer<float> y("y", 4);
  EXPECT_THROW(max_pool_forward<float>(exec, good, x, false, y, Buffer<std::uint8_t>("which", 3)), Error);
}

}  // namespace
}  // namespace pool_test
}  // namespace halograd
