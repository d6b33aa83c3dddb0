#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/conv.hpp"
#include "kernels/host/winograd.hpp"
#include "tests/kernels/buffers.hpp"

/// What the tests of convolutions compare with: the definition, in double.
namespace halograd {

// Found by GoogleTest through the argument's namespace.
inline void PrintTo(const ConvShape& s, std::ostream* out) {
  *out << "N " << s.batch << " C " << s.channels << " K " << s.filters << " G " << s.groups;
  const char* names[] = {" extent", " kernel", " stride", " padding", " dilation"};
  const ConvShape::Spatial* values[] = {&s.extent, &s.kernel, &s.stride, &s.padding, &s.dilation};
  for (int i = 0; i < 5; ++i)
    *out << names[i] << ' ' << (*values[i])[0] << ',' << (*values[i])[1] << ',' << (*values[i])[2];
}

inline std::vector<double> random_values(long count, std::mt19937& generator) {
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
    compute(s);
  }
  /// y and the gradients, of what x, weights, bias and dy are now.
  void compute(const ConvShape& s) {
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

/// The bound on a pass's error, in terms of the largest value, by the way that is chosen for it; `direct` is that of
/// sums of products. In single precision Winograd's transforms cost half a digit more (winograd_test.cpp has layers).
template <class T>
double chosen_tolerance(const ConvShape& s, host::ConvPass pass, double direct) {
  const bool winograd = runs_on_host && host::winograd_pays(s, pass);
  return winograd && std::is_same_v<T, float> ? 1e-5 : direct;
}

template <class T>
void expect_near(const std::vector<double>& expected, const std::vector<T>& values, double tolerance,
                 const char* what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  double scale = 1;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * scale) << what << " at " << i;
  }
}

template <class T>
void expect_near(const std::vector<double>& expected, const Buffer<T>& found, double tolerance, const char* what) {
  expect_near(expected, to_host(found), tolerance, what);
}

inline ConvShape image(int batch, int height, int width, int channels, int filters, int kernel, int stride = 1,
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

/// The same over volumes of `slices` slices, with a kernel of `taps` slices.
inline ConvShape volume(ConvShape s, int slices, int taps, int padding) {
  s.extent[0] = slices;
  s.kernel[0] = taps;
  s.padding[0] = padding;
  return s;
}
inline ConvShape volume(int channels = 6, int filters = 9, int groups = 3) {
  ConvShape s;
  s.batch = 2;
  s.channels = channels;
  s.filters = filters;
  s.groups = groups;
  s.extent = {5, 6, 7};
  s.kernel = {3, 2, 3};
  s.stride = {2, 1, 2};
  s.padding = {1, 0, 2};
  s.dilation = {1, 2, 1};
  return s;
}

/// Layers of networks, and what is odd in one way or another.
inline std::vector<ConvShape> layer_shapes() {
  return {image(3, 28, 28, 1, 20, 5),      image(2, 12, 12, 20, 50, 5),
          image(2, 9, 9, 3, 64, 3, 1, 1),  image(2, 8, 8, 16, 16, 3, 1, 1),
          image(2, 8, 8, 16, 32, 3, 2, 1), image(2, 8, 8, 16, 32, 1, 2),
          image(1, 7, 5, 17, 33, 3, 1, 1), image(5, 1, 1, 100, 70, 1),
          image(50, 1, 1, 37, 10, 1),      image(1, 1, 1, 1, 1, 1),
          image(1, 1, 1, 4, 4, 3, 1, 1),   image(2, 11, 9, 8, 12, 3, 1, 2, 2, 4),
          image(1, 15, 15, 3, 8, 7, 2, 3), image(2, 6, 6, 8, 8, 3, 1, 1, 1, 8),
          image(1, 10, 10, 2, 2, 2, 3),    volume()};
}

}  // namespace halograd
