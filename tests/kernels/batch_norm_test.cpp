#include "kernels/batch_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::batch_norm_test {
namespace {

constexpr double epsilon = 1e-5;
constexpr double momentum = 0.1;

/// What one training call and its backward give.
template <class T>
struct Result {
  std::vector<T> y, dx;
  std::vector<Wide<T>> running_mean, running_var, mean, inverse_std, dscale, dshift;
};

/// Inputs around `centre`, with a different offset and width for each channel.
template <class T>
struct Inputs {
  long rows;
  int channels;
  std::vector<T> x, dy, before;
  std::vector<Wide<T>> scale, shift, running_mean, running_var;
  Inputs(long row_count, int channel_count, double centre = 0)
      : rows(row_count),
        channels(channel_count),
        x(noise<T>(row_count * channel_count, 1)),
        dy(noise<T>(row_count * channel_count, 2)),
        before(noise<T>(row_count * channel_count, 7)),
        scale(noise<Wide<T>>(channel_count, 3, 0.5, 1.5)),
        shift(noise<Wide<T>>(channel_count, 4)),
        running_mean(noise<Wide<T>>(channel_count, 5)),
        running_var(noise<Wide<T>>(channel_count, 6, 0.5, 1.5)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int c = static_cast<int>(i % channels);
      x[i] = static_cast<T>(centre + c % 5 + static_cast<double>(x[i]) * (1 + c % 3));
    }
  }
};

template <class T>
Result<T> train(const Inputs<T>& in, bool accumulate, bool relu = false, const Vector<const T>& addend = {},
                double ceiling = std::numeric_limits<double>::infinity()) {
  const ExecutionSpace exec;
  const auto channels = static_cast<std::size_t>(in.channels);
  const auto x = to_device(in.x);
  const auto scale = to_device(in.scale);
  const auto running_mean = to_device(in.running_mean);
  const auto running_var = to_device(in.running_var);
  const Buffer<Wide<T>> mean("mean", channels);
  const Buffer<Wide<T>> inverse_std("inverse_std", channels);
  const Buffer<T> y("y", in.x.size());
  const Buffer<Wide<T>> dscale("dscale", channels);
  const Buffer<Wide<T>> dshift("dshift", channels);
  const auto dx = to_device(in.before);
  const Buffer<double> workspace("workspace", batch_norm_workspace(in.rows, in.channels));
  Kokkos::deep_copy(workspace, std::nan(""));
  const auto shift = to_device(in.shift);
  const auto dy = to_device(in.dy);
  batch_norm_forward_training<T>(exec, {.rows = in.rows,
                                        .channels = in.channels,
                                        .x = x,
                                        .scale = scale,
                                        .shift = shift,
                                        .epsilon = epsilon,
                                        .momentum = momentum,
                                        .running_mean = running_mean,
                                        .running_var = running_var,
                                        .saved_mean = mean,
                                        .saved_inverse_std = inverse_std,
                                        .addend = addend,
                                        .relu = relu,
                                        .ceiling = ceiling,
                                        .y = y,
                                        .workspace = workspace});
  exec.fence();
  Kokkos::deep_copy(workspace, std::nan(""));
  batch_norm_backward<T>(exec, {.rows = in.rows,
                                .channels = in.channels,
                                .x = x,
                                .dy = dy,
                                .scale = scale,
                                .shift = shift,
                                .saved_mean = mean,
                                .saved_inverse_std = inverse_std,
                                .dx = dx,
                                .dscale = dscale,
                                .dshift = dshift,
                                .ceiling = ceiling,
                                .accumulate = accumulate,
                                .mask = relu,
                                .workspace = workspace});
  exec.fence();
  return {to_host(y),    to_host(dx),          to_host(running_mean), to_host(running_var),
          to_host(mean), to_host(inverse_std), to_host(dscale),       to_host(dshift)};
}

/// The same in plain loops, long double throughout.
template <class T>
Result<double> plain(const Inputs<T>& in) {
  using Real = long double;
  Result<double> out;
  out.y.resize(in.x.size());
  out.dx.resize(in.x.size());
  for (int c = 0; c < in.channels; ++c) {
    Real sum = 0, squares = 0;
    for (long r = 0; r < in.rows; ++r) sum += in.x[r * in.channels + c];
    const Real mean = sum / in.rows;
    for (long r = 0; r < in.rows; ++r) squares += std::pow(Real(in.x[r * in.channels + c]) - mean, 2);
    const Real variance = squares / in.rows;
    const Real inverse_std = 1 / std::sqrt(variance + Real(epsilon));
    Real dshift = 0, dscale = 0;
    for (long r = 0; r < in.rows; ++r) {
      const long i = r * in.channels + c;
      const Real normal = (in.x[i] - mean) * inverse_std;
      out.y[i] = static_cast<double>(normal * in.scale[c] + in.shift[c]);
      dshift += in.dy[i];
      dscale += in.dy[i] * normal;
    }
    for (long r = 0; r < in.rows; ++r) {
      const long i = r * in.channels + c;
      const Real normal = (in.x[i] - mean) * inverse_std;
      out.dx[i] =
          static_cast<double>(in.scale[c] * inverse_std * (in.dy[i] - dshift / in.rows - normal * dscale / in.rows));
    }
    out.mean.push_back(static_cast<double>(mean));
    out.inverse_std.push_back(static_cast<double>(inverse_std));
    out.dshift.push_back(static_cast<double>(dshift));
    out.dscale.push_back(static_cast<double>(dscale));
    out.running_mean.push_back(static_cast<double>((1 - momentum) * in.running_mean[c] + momentum * mean));
    out.running_var.push_back(
        static_cast<double>((1 - momentum) * in.running_var[c] + momentum * squares / (in.rows - 1)));
  }
  return out;
}

template <class T>
void expect_near(const std::vector<T>& found, const std::vector<double>& expected, double bound, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double size = std::abs(expected[i]);
    ASSERT_NEAR(found[i], expected[i], bound * (1 + size) + storage_rounding<T> * size) << what << " " << i;
  }
}

/// `sum` was rounded for storage once, after the addition; `second` by itself.
template <class T>
void expect_sum(T sum, T first, T second, double bound) {
  const Wide<T> expected = first + second;
  EXPECT_NEAR(sum, expected, bound + storage_rounding<T> * (std::abs(Wide<T>(sum)) + std::abs(Wide<T>(second))));
}

template <class T>
class BatchNormTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double, Bfloat16>;
TYPED_TEST_SUITE(BatchNormTest, Reals);

struct Extents {
  long rows;
  int channels;
};
const Extents shapes[] = {{2, 1},    {3, 3},     {17, 17},  {50, 1},    {1000, 3},  {4096, 16}, {777, 20},
                          {300, 64}, {129, 100}, {64, 128}, {100, 130}, {2, 1000},  {37, 513},  {20000, 2},
                          {70, 129}, {5, 33},    {16, 256}, {9, 127},   {100000, 3}};

TYPED_TEST(BatchNormTest, AgreesWithAPlainLoop) {
  using T = TypeParam;
  for (const Extents& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.channels);
    const Inputs<T> in(shape.rows, shape.channels);
    const auto expected = plain(in);
    const auto found = train(in, false);
    const double bound = 10 * tolerance<T>;
    // Where two rows happen to be close, the deviation is small and its relative error large.
    const double loose = shape.rows < 4 ? 1000 * bound : bound;
    expect_near(found.mean, expected.mean, bound, "mean");
    expect_near(found.inverse_std, expected.inverse_std, bound, "inverse_std");
    expect_near(found.running_mean, expected.running_mean, bound, "running_mean");
    expect_near(found.running_var, expected.running_var, bound, "running_var");
    expect_near(found.y, expected.y, loose, "y");
    expect_near(found.dshift, expected.dshift, bound, "dshift");
    expect_near(found.dscale, expected.dscale, loose, "dscale");
    expect_near(found.dx, expected.dx, loose, "dx");
    const auto added = train(in, true);
    for (std::size_t i = 0; i < added.dx.size(); ++i) {
      expect_sum(added.dx[i], in.before[i], found.dx[i], bound);
    }
    EXPECT_EQ(added.y, found.y);  // and the same bits again
    EXPECT_EQ(added.dscale, found.dscale);
  }
}

// Backward's mask is the sign of x: x is the output of a ReLU there.
TYPED_TEST(BatchNormTest, FusedWithAddAndReluAgreesWithOneAfterTheOther) {
  using T = TypeParam;
  for (const Extents& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.channels);
    const Inputs<T> in(shape.rows, shape.channels);
    const auto addend = to_device(noise<T>(in.x.size(), 8));
    const std::vector<T> terms = to_host(addend);
    for (const bool accumulate : {false, true}) {
      const auto plain_result = train(in, accumulate);
      const auto relu = train(in, accumulate, true), both = train<T>(in, accumulate, true, addend),
                 add = train<T>(in, accumulate, false, addend);
      for (std::size_t i = 0; i < in.x.size(); ++i) {
        ASSERT_EQ(relu.y[i], std::max(plain_result.y[i], T(0))) << i;
        expect_sum(add.y[i], terms[i], plain_result.y[i], 0);
        ASSERT_EQ(both.y[i], std::max(add.y[i], T(0))) << i;
        ASSERT_EQ(relu.dx[i], in.x[i] > 0 ? plain_result.dx[i] : T(0)) << i;
        ASSERT_EQ(add.dx[i], plain_result.dx[i]) << i;
      }
    }
  }
}

TYPED_TEST(BatchNormTest, ACeilingCutsValuesAndTheirGradients) {
  using T = TypeParam;
  constexpr double ceiling = 0.6;
  for (const Extents& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.channels);
    Inputs<T> in(shape.rows, shape.channels);
    const std::vector<double> y = plain(in).y;
    for (std::size_t i = 0; i < y.size(); ++i) {  // what rounding would decide about has no gradient
      if (std::abs(y[i] - ceiling) < 1e-3) in.dy[i] = T(0);
    }
    const auto found = train<T>(in, false, true, {}, ceiling), rectified = train<T>(in, false, true);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(found.y[i], std::min(rectified.y[i], static_cast<T>(ceiling))) << i;
      if (y[i] >= ceiling) in.dy[i] = T(0);
    }
    const auto expected = train<T>(in, false, true);
    EXPECT_EQ(found.dx, expected.dx);
    EXPECT_EQ(found.dscale, expected.dscale);
    EXPECT_EQ(found.dshift, expected.dshift);
  }
}

TYPED_TEST(BatchNormTest, InferenceAddsAndRectifiesInPlace) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Inputs<T> in(50, 20);
  const auto x = to_device(in.x), y = to_device(in.before);
  const auto scale = to_device(in.scale), shift = to_device(in.shift), mean = to_device(in.running_mean),
             variance = to_device(in.running_var);
  const Buffer<T> plain_y("y", in.x.size()), sums("sums", in.x.size());
  BatchNormInference<T> call{.rows = 50,
                             .channels = 20,
                             .x = x,
                             .scale = scale,
                             .shift = shift,
                             .epsilon = epsilon,
                             .running_mean = mean,
                             .running_var = variance,
                             .y = plain_y};
  batch_norm_forward_inference(exec, call);
  call.addend = y;
  call.y = sums;
  batch_norm_forward_inference(exec, call);
  call.relu = true;
  call.y = y;
  batch_norm_forward_inference(exec, call);
  exec.fence();
  const auto found = to_host(y), sum = to_host(sums), before = to_host(plain_y);
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_sum(sum[i], in.before[i], before[i], 0);
    ASSERT_EQ(found[i], std::max(sum[i], T(0))) << i;
  }
}

// One value ten thousand times as large as the others, first of all: what a shift by it must survive.
TYPED_TEST(BatchNormTest, AnOutlierInTheFirstRowKeepsTheVariance) {
  using T = TypeParam;
  Inputs<T> in(60000, 3);
  for (std::size_t c = 0; c < 3; ++c) in.x[c] = T(1e4);
  const auto expected = plain(in);
  const auto found = train(in, false);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(found.inverse_std[c] / expected.inverse_std[c], 1, 1e-4);
}

TYPED_TEST(BatchNormTest, DataFarFromZeroKeepsItsVariance) {
  using T = TypeParam;
  for (const double centre : {100.0, 10000.0}) {
    const Inputs<T> in(20000, 7, centre);
    const auto expected = plain(in);
    const auto found = train(in, false);
    for (std::size_t c = 0; c < 7; ++c) {
      EXPECT_NEAR(found.inverse_std[c] / expected.inverse_std[c], 1, 1e-6);
      EXPECT_NEAR(found.mean[c] / expected.mean[c], 1, 1e-6);
    }
  }
}

TYPED_TEST(BatchNormTest, InferenceUsesTheRunningStatistics) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const Extents& shape : {Extents{0, 4}, Extents{1, 3}, Extents{100, 17}, Extents{600, 130}}) {
    const Inputs<T> in(shape.rows, shape.channels);
    const auto x = to_device(in.x);
    const Buffer<T> y("y", in.x.size());
    const auto scale = to_device(in.scale);
    const auto shift = to_device(in.shift);
    const auto mean = to_device(in.running_mean);
    const auto variance = to_device(in.running_var);
    BatchNormInference<T> call{.rows = in.rows,
                               .channels = in.channels,
                               .x = x,
                               .scale = scale,
                               .shift = shift,
                               .epsilon = epsilon,
                               .running_mean = mean,
                               .running_var = variance,
                               .y = y};
    batch_norm_forward_inference(exec, call);
    call.y = x;
    batch_norm_forward_inference(exec, call);
    exec.fence();
    const auto found = to_host(y);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(in.channels);
      const double expected =
          (static_cast<double>(in.x[i]) - in.running_mean[c]) / std::sqrt(in.running_var[c] + epsilon) * in.scale[c] +
          in.shift[c];
      ASSERT_NEAR(found[i], expected, 10 * tolerance<T> + storage_rounding<T> * std::abs(expected)) << i;
    }
    EXPECT_EQ(to_host(x), found);
  }
}

TYPED_TEST(BatchNormTest, BackwardMayOverwriteTheGradientItReads) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Inputs<T> in(70, 20);
  const auto expected = train(in, false);
  const auto gradient = to_device(in.dy);
  const Buffer<Wide<T>> dscale("dscale", 20);
  const Buffer<Wide<T>> dshift("dshift", 20);
  const Buffer<double> workspace("workspace", batch_norm_workspace(70, 20));
  const auto x = to_device(in.x);
  const auto scale = to_device(in.scale), mean = to_device(expected.mean),
             inverse_std = to_device(expected.inverse_std);
  batch_norm_backward<T>(exec, {.rows = 70,
                                .channels = 20,
                                .x = x,
                                .dy = gradient,
                                .scale = scale,
                                .saved_mean = mean,
                                .saved_inverse_std = inverse_std,
                                .dx = gradient,
                                .dscale = dscale,
                                .dshift = dshift,
                                .workspace = workspace});
  exec.fence();
  EXPECT_EQ(to_host(gradient), expected.dx);
}

TEST(BatchNormGradientTest, AgreesWithCentralDifferences) {
  for (const Extents& shape : {Extents{2, 1}, Extents{5, 3}, Extents{12, 17}}) {
    const Inputs<double> in(shape.rows, shape.channels);
    const auto found = train(in, false);
    const double step = 1e-5;
    const auto objective = [](const Inputs<double>& inputs) {
      const auto y = train(inputs, false).y;
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += inputs.dy[i] * y[i];
      return sum;
    };
    const auto check = [&](std::vector<double> Inputs<double>::*member, const std::vector<double>& gradient) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        Inputs<double> up = in;
        Inputs<double> down = in;
        (up.*member)[i] += step;
        (down.*member)[i] -= step;
        const double slope = (objective(up) - objective(down)) / (2 * step);
        EXPECT_NEAR(gradient[i], slope, 1e-6 * (1 + std::abs(slope))) << i;
      }
    };
    check(&Inputs<double>::x, found.dx);
    check(&Inputs<double>::scale, found.dscale);
    check(&Inputs<double>::shift, found.dshift);
  }
}

TEST(BatchNormWorkspaceTest, GrowsWithTheRows) {
  for (const int channels : {1, 3, 16, 500}) {
    std::size_t last = 0;
    for (long rows = 2; rows < 100000; rows += 1 + rows / 7) {
      const std::size_t needed = batch_norm_workspace(rows, channels);
      EXPECT_GE(needed, last);
      last = needed;
    }
  }
}

TYPED_TEST(BatchNormTest, RefusesOneRowAndShortBuffers) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Buffer<Wide<T>> c("c", 3);
  const Buffer<T> x("x", 6);
  const Buffer<T> shorter("shorter", 5);
  const Buffer<double> workspace("workspace", batch_norm_workspace(2, 3));
  const auto forward = [&](long rows, const Buffer<T>& y, const Buffer<double>& scratch) {
    batch_norm_forward_training<T>(exec, {.rows = rows,
                                          .channels = 3,
                                          .x = x,
                                          .scale = c,
                                          .shift = c,
                                          .epsilon = epsilon,
                                          .momentum = momentum,
                                          .running_mean = c,
                                          .running_var = c,
                                          .saved_mean = c,
                                          .saved_inverse_std = c,
                                          .y = y,
                                          .workspace = scratch});
  };
  EXPECT_NO_THROW(forward(2, x, workspace));
  EXPECT_THROW(forward(1, x, workspace), Error);
  EXPECT_THROW(forward(0, x, workspace), Error);
  EXPECT_THROW(forward(3, x, workspace), Error);
  EXPECT_THROW(forward(2, shorter, workspace), Error);
  EXPECT_THROW(forward(2, x, Buffer<double>("workspace", 1)), Error);
  const auto backward = [&](long rows, const Buffer<T>& dx) {
    batch_norm_backward<T>(exec, {.rows = rows,
                                  .channels = 3,
                                  .x = x,
                                  .dy = x,
                                  .scale = c,
                                  .saved_mean = c,
                                  .saved_inverse_std = c,
                                  .dx = dx,
                                  .dscale = c,
                                  .dshift = c,
                                  .workspace = workspace});
  };
  EXPECT_NO_THROW(backward(2, x));
  EXPECT_THROW(backward(1, x), Error);
  EXPECT_THROW(backward(2, shorter), Error);
  BatchNormInference<T> inference{.rows = 2,
                                  .channels = 3,
                                  .x = x,
                                  .scale = c,
                                  .shift = c,
                                  .epsilon = epsilon,
                                  .running_mean = c,
                                  .running_var = c,
                                  .y = x};
  EXPECT_NO_THROW(batch_norm_forward_inference(exec, inference));
  inference.y = shorter;
  EXPECT_THROW(batch_norm_forward_inference(exec, inference), Error);
  exec.fence();
}

}  // namespace
}  // namespace halograd::batch_norm_test
