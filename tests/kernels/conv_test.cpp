#include "kernels/conv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <random>
#include <vector>

#include "kernels/device/conv.hpp"
#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd {

// Found by GoogleTest through the argument's namespace.
static void PrintTo(const ConvShape& s, std::ostream* out) {
  *out << "N " << s.batch << " C " << s.channels << " K " << s.filters << " G " << s.groups;
  const char* names[] = {" extent", " kernel", " stride", " padding", " dilation"};
  const ConvShape::Spatial* values[] = {&s.extent, &s.kernel, &s.stride, &s.padding, &s.dilation};
  for (int i = 0; i < 5; ++i)
    *out << names[i] << ' ' << (*values[i])[0] << ',' << (*values[i])[1] << ',' << (*values[i])[2];
}

namespace {

std::vector<double> random_values(long count, std::mt19937& generator) {
  std::uniform_real_distribution<double> distribution(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(generator);
  return values;
}

/// The definition, in double: calls visit(input index, weight index, output index) for every product of the
/// convolution.
template <class Visit>
void for_each_product(const ConvShape& s, const Visit& visit) {
  const auto out = s.out_extent();
  const int in_group = s.channels / s.groups, out_group = s.filters / s.groups;
  for (int n = 0; n < s.batch; ++n)
    for (int od = 0; od < out[0]; ++od)
      for (int oh = 0; oh < out[1]; ++oh)
        for (int ow = 0; ow < out[2]; ++ow)
          for (int t = 0; t < s.kernel[0]; ++t)
            for (int r = 0; r < s.kernel[1]; ++r)
              for (int q = 0; q < s.kernel[2]; ++q) {
                const int d = od * s.stride[0] - s.padding[0] + t * s.dilation[0];
                const int h = oh * s.stride[1] - s.padding[1] + r * s.dilation[1];
                const int w = ow * s.stride[2] - s.padding[2] + q * s.dilation[2];
                if (d < 0 || h < 0 || w < 0 || d >= s.extent[0] || h >= s.extent[1] || w >= s.extent[2]) continue;
                for (int k = 0; k < s.filters; ++k)
                  for (int c = 0; c < in_group; ++c) {
                    const long in =
                        (((static_cast<long>(n) * s.extent[0] + d) * s.extent[1] + h) * s.extent[2] + w) * s.channels +
                        k / out_group * in_group + c;
                    const long weight =
                        (((static_cast<long>(t) * s.kernel[1] + r) * s.kernel[2] + q) * in_group + c) * s.filters + k;
                    const long result =
                        (((static_cast<long>(n) * out[0] + od) * out[1] + oh) * out[2] + ow) * s.filters + k;
                    visit(in, weight, result);
                  }
              }
}

template <class T>
Buffer<T> device_values(const std::vector<double>& values) {
  return to_device(std::vector<T>(values.begin(), values.end()));
}

struct Reference {
  std::vector<double> x, weights, bias, dy, y, dx, dweights, dbias;
  Reference(const ConvShape& s, unsigned seed) {
    std::mt19937 generator(seed);
    x = random_values(s.in_pixels() * s.channels, generator);
    weights = random_values(s.weights(), generator);
    bias = random_values(s.filters, generator);
    dy = random_values(s.out_pixels() * s.filters, generator);
    y.resize(dy.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias[i % bias.size()];
    dx.assign(x.size(), 0);
    dweights.assign(weights.size(), 0);
    dbias.assign(bias.size(), 0);
    for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % bias.size()] += dy[i];
    for_each_product(s, [&](long in, long weight, long out) {
      y[out] += x[in] * weights[weight];
      dx[in] += dy[out] * weights[weight];
      dweights[weight] += x[in] * dy[out];
    });
  }
};

template <class T>
void expect_near(const std::vector<double>& expected, const Buffer<T>& found, double tolerance, const char* what) {
  const std::vector<T> values = to_host(found);
  ASSERT_EQ(values.size(), expected.size()) << what;
  double scale = 1;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * scale) << what << " at " << i;
  }
}

/// All three passes against the definition.
template <class T>
void check_passes(const ConvShape& s, double tolerance) {
  const Reference reference(s, 7);
  const ExecutionSpace exec;
  const auto x = device_values<T>(reference.x), weights = device_values<T>(reference.weights),
             bias = device_values<T>(reference.bias), dy = device_values<T>(reference.dy);
  const Buffer<std::byte> workspace("workspace", conv_workspace<T>(s));
  const Buffer<T> y("y", reference.y.size()), dx("dx", reference.x.size()),
      dweights("dweights", reference.weights.size()), dbias("dbias", reference.bias.size());
  conv_forward<T>(exec, s, x, weights, bias, false, y, workspace);
  expect_near(reference.y, y, tolerance, "y");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, workspace);
  expect_near(reference.dx, dx, tolerance, "dx");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, true, workspace);
  std::vector<double> twice = reference.dx;
  for (double& value : twice) value *= 2;
  expect_near(twice, dx, tolerance, "dx accumulated");
  conv_backward_weights<T>(exec, s, x, dy, dweights, dbias, workspace);
  expect_near(reference.dweights, dweights, tolerance, "dweights");
  expect_near(reference.dbias, dbias, tolerance, "dbias");

  // x as the output of a ReLU: its sign is the mask.
  std::vector<double> rectified = reference.y, masked = twice;
  for (double& value : rectified) value = std::max(value, 0.0);
  for (std::size_t i = 0; i < masked.size(); ++i) masked[i] = reference.x[i] > 0 ? masked[i] : 0;
  conv_forward<T>(exec, s, x, weights, bias, true, y, workspace);
  expect_near(rectified, y, tolerance, "y with ReLU");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, workspace);
  conv_backward_data<T>(exec, s, dy, weights, x, dx, true, workspace);
  expect_near(masked, dx, tolerance, "dx through a ReLU");

  device::conv_forward<T>(exec, s, x, weights, bias, true, y);
  expect_near(rectified, y, tolerance, "device y with ReLU");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false);
  device::conv_backward_data<T>(exec, s, dy, weights, x, dx, true);
  expect_near(masked, dx, tolerance, "device dx through a ReLU");
  device::conv_forward<T>(exec, s, x, weights, bias, false, y);
  expect_near(reference.y, y, tolerance, "device y");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false);
  expect_near(reference.dx, dx, tolerance, "device dx");
  device::conv_backward_weights<T>(exec, s, x, dy, dweights, dbias);
  expect_near(reference.dweights, dweights, tolerance, "device dweights");
  expect_near(reference.dbias, dbias, tolerance, "device dbias");
}

ConvShape image(int batch, int height, int width, int channels, int filters, int kernel, int stride = 1,
                int padding = 0, int dilation = 1, int groups = 1) {
  ConvShape s;
  s.batch = batch;
  s.channels = channels;
  s.filters = filters;
  s.groups = groups;
  s.extent = {1, height, width};
  s.kernel = {1, kernel, kernel};
  s.stride = {1, stride, stride};
  s.padding = {0, padding, padding};
  s.dilation = {1, dilation, dilation};
  return s;
}

class ConvShapes : public ::testing::TestWithParam<ConvShape> {};

TEST_P(ConvShapes, MatchesDefinitionInDouble) {
  check_passes<double>(GetParam(), 1e-12);
}
TEST_P(ConvShapes, MatchesDefinitionInFloat) {
  check_passes<float>(GetParam(), 3e-6);
}

ConvShape volume() {
  ConvShape s;
  s.batch = 2;
  s.channels = 6;
  s.filters = 9;
  s.groups = 3;
  s.extent = {5, 6, 7};
  s.kernel = {3, 2, 3};
  s.stride = {2, 1, 2};
  s.padding = {1, 0, 2};
  s.dilation = {1, 2, 1};
  return s;
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvShapes,
                         ::testing::Values(image(3, 28, 28, 1, 20, 5), image(2, 12, 12, 20, 50, 5),
                                           image(2, 9, 9, 3, 64, 3, 1, 1), image(2, 8, 8, 16, 16, 3, 1, 1),
                                           image(2, 8, 8, 16, 32, 3, 2, 1), image(2, 8, 8, 16, 32, 1, 2),
                                           image(1, 7, 5, 17, 33, 3, 1, 1), image(5, 1, 1, 100, 70, 1),
                                           image(50, 1, 1, 37, 10, 1), image(1, 1, 1, 1, 1, 1),
                                           image(1, 1, 1, 4, 4, 3, 1, 1), image(2, 11, 9, 8, 12, 3, 1, 2, 2, 4),
                                           image(1, 15, 15, 3, 8, 7, 2, 3), image(2, 6, 6, 8, 8, 3, 1, 1, 1, 8),
                                           image(1, 10, 10, 2, 2, 2, 3), volume()));

// A hundred shapes that nobody chose.
TEST(Conv, RandomShapesMatchDefinition) {
  std::mt19937 generator(2024);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
  for (int i = 0; i < 100; ++i) {
    ConvShape s;
    s.batch = draw(1, 3);
    s.groups = draw(0, 3) == 0 ? draw(2, 3) : 1;
    s.channels = s.groups * draw(1, 20);
    s.filters = s.groups * draw(1, 40);
    for (int axis = 0; axis < 3; ++axis) {
      s.extent[axis] = axis == 0 && draw(0, 2) > 0 ? 1 : draw(1, 8);
      s.kernel[axis] = draw(1, 3);
      s.stride[axis] = draw(1, 3);
      s.dilation[axis] = draw(1, 2);
      s.padding[axis] = draw(0, 2);
      while (s.out_extent()[axis] < 1) ++s.padding[axis];
    }
    SCOPED_TRACE(::testing::PrintToString(s));
    check_passes<double>(s, 1e-12);
    if (HasFatalFailure()) return;
  }
}

// Central differences of sum(y dy) in double, in the direction of one weight, one input and one bias at a time.
TEST(Conv, GradientsMatchCentralDifferences) {
  const ConvShape s = image(2, 6, 5, 4, 6, 3, 2, 1, 1, 2);
  const Reference reference(s, 3);
  const ExecutionSpace exec;
  const Buffer<std::byte> workspace("workspace", conv_workspace<double>(s));
  const Buffer<double> y("y", reference.y.size());
  const auto value = [&](const std::vector<double>& x, const std::vector<double>& weights,
                         const std::vector<double>& bias) {
    conv_forward<double>(exec, s, device_values<double>(x), device_values<double>(weights), device_values<double>(bias),
                         false, y, workspace);
    const auto found = to_host(y);
    double sum = 0;
    for (std::size_t i = 0; i < found.size(); ++i) sum += found[i] * reference.dy[i];
    return sum;
  };
  const Buffer<double> dx("dx", reference.x.size()), dweights("dweights", reference.weights.size()),
      dbias("dbias", reference.bias.size());
  const auto x = device_values<double>(reference.x), weights = device_values<double>(reference.weights),
             dy = device_values<double>(reference.dy);
  conv_backward_data<double>(exec, s, dy, weights, {}, dx, false, workspace);
  conv_backward_weights<double>(exec, s, x, dy, dweights, dbias, workspace);
  const auto check = [&](std::vector<double> values, const Buffer<double>& gradient, auto evaluate) {
    const auto analytic = to_host(gradient);
    for (std::size_t i = 0; i < values.size(); i += 5) {
      const double h = 1e-4, kept = values[i];
      values[i] = kept + h;
      const double above = evaluate(values);
      values[i] = kept - h;
      const double below = evaluate(values);
      values[i] = kept;
      ASSERT_NEAR(analytic[i], (above - below) / (2 * h), 1e-8) << "at " << i;
    }
  };
  check(reference.x, dx, [&](const auto& v) { return value(v, reference.weights, reference.bias); });
  check(reference.weights, dweights, [&](const auto& v) { return value(reference.x, v, reference.bias); });
  check(reference.bias, dbias, [&](const auto& v) { return value(reference.x, reference.weights, v); });
}

TEST(Conv, RefusesASmallWorkspace) {
  const ConvShape s = image(1, 4, 4, 2, 2, 3);
  if (conv_workspace<float>(s) == 0) GTEST_SKIP() << "this backend needs no workspace";
  const Buffer<float> x("x", 32), weights("w", 36), y("y", 8);
  EXPECT_THROW(
      conv_forward<float>(ExecutionSpace(), s, x, weights, Vector<const float>(), false, y, Vector<std::byte>()),
      Error);
}

}  // namespace
}  // namespace halograd
