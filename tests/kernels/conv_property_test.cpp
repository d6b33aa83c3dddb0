// Shapes that nobody chose, through whatever path the library takes for them: general ones in one to three dimensions,
// depthwise, few channels, dense, many weights, and small images in batches.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/conv_reference.hpp"

namespace halograd::conv_property_test {
namespace {

using Draw = std::mt19937;

int draw(Draw& generator, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(generator);
}

/// One to three dimensions, the leading ones unused.
ConvShape general(Draw& generator) {
  ConvShape s;
  s.batch = draw(generator, 1, 3);
  s.groups = draw(generator, 0, 3) == 0 ? draw(generator, 2, 3) : 1;
  s.channels = s.groups * draw(generator, 1, 20);
  s.filters = s.groups * draw(generator, 1, 40);
  for (int axis = draw(generator, 0, 2); axis < 3; ++axis) {
    s.extent[axis] = draw(generator, 1, 8);
    s.kernel[axis] = draw(generator, 1, 3);
    s.stride[axis] = draw(generator, 1, 3);
    s.dilation[axis] = draw(generator, 1, 2);
    s.padding[axis] = draw(generator, 0, 2);
    while (s.out_extent()[axis] < 1) ++s.padding[axis];
  }
  return s;
}

ConvShape depthwise(Draw& generator) {
  ConvShape s = general(generator);
  s.groups = s.channels = s.filters = draw(generator, 2, 70);
  return s;
}

/// Rows that are computed in several stretches, for their length or for their channels; up to 75 taps.
ConvShape long_depthwise(Draw& generator) {
  ConvShape s = depthwise(generator);
  const bool many = draw(generator, 0, 1) == 1;
  s.batch = 1;
  s.groups = s.channels = s.filters = many ? draw(generator, 1100, 2100) : draw(generator, 2, 20);
  s.extent[2] = many ? draw(generator, 17, 30) : draw(generator, 129, 300);
  s.kernel[2] = draw(generator, 1, 5);
  return s;
}

ConvShape few_channels(Draw& generator) {
  ConvShape s = general(generator);
  s.groups = 1;
  s.channels = draw(generator, 1, 4);
  return s;
}

ConvShape dense(Draw& generator) {
  ConvShape s;
  s.batch = draw(generator, 1, 40);
  s.channels = draw(generator, 1, 150);
  s.filters = draw(generator, 1, 150);
  return s;
}

/// More weights than a second-level cache has room for beside the images, which are few.
ConvShape many_weights(Draw& generator) {
  ConvShape s;
  s.batch = 2;
  s.extent = {1, draw(generator, 5, 6), draw(generator, 5, 6)};
  s.channels = draw(generator, 515, 530);
  s.filters = draw(generator, 515, 530);
  return s;
}

/// Weight gradients that copy x tile by tile, in more than one stretch of pixels and piece of rows.
ConvShape many_columns(Draw& generator, int kernel) {
  ConvShape s;
  s.batch = 2;
  const int stride = kernel == 1 ? draw(generator, 1, 2) : 2;  // with 1, Winograd's way is taken
  for (int axis = 1; axis < 3; ++axis) {
    s.extent[axis] = stride * draw(generator, 11, 12);
    s.stride[axis] = stride;
    s.kernel[axis] = kernel;
    s.padding[axis] = kernel / 2;
  }
  s.channels = kernel == 1 ? draw(generator, 258, 300) : draw(generator, 48, 70);
  s.filters = 512;
  return s;
}

ConvShape small_images(Draw& generator) {
  ConvShape s = general(generator);
  s.batch = draw(generator, 8, 19);
  s.channels = s.groups * draw(generator, 1, 6);
  for (int& extent : s.extent) extent = std::min(extent, 4);
  for (int axis = 0; axis < 3; ++axis) {
    while (s.out_extent()[axis] < 1) ++s.padding[axis];
  }
  return s;
}

/// Stride 2 x 2 and few channels: the data gradient takes all phases at a time.
ConvShape strided(Draw& generator) {
  ConvShape s = general(generator);
  s.batch = draw(generator, 1, 11);
  s.groups = 1;
  s.channels = draw(generator, 1, 34);
  for (int axis = 1; axis < 3; ++axis) {
    s.extent[axis] = draw(generator, 1, 13);
    s.kernel[axis] = draw(generator, 1, 4);
    s.stride[axis] = 2;
    while (s.out_extent()[axis] < 1) ++s.padding[axis];
  }
  return s;
}

/// `values` with NaN before and after them: whatever is read there spoils a result.
template <class T>
struct Guarded {
  static constexpr std::size_t edge = 64;
  Buffer<T> all;
  std::size_t length;
  explicit Guarded(const std::vector<double>& values) : length(values.size()) {
    std::vector<T> host(length + 2 * edge, std::numeric_limits<T>::quiet_NaN());
    for (std::size_t i = 0; i < length; ++i) host[edge + i] = static_cast<T>(values[i]);
    all = to_device(host);
  }
  [[nodiscard]] Vector<T> values() const { return slice(all, edge, length); }
  /// Holds the values against `expected`, and what is around them against NaN.
  void expect(const std::vector<double>& expected, double tolerance, const char* what) const {
    const std::vector<T> host = to_host(all);
    double scale = 1;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < length; ++i) {
      ASSERT_NEAR(host[edge + i], expected[i], tolerance * scale) << what << " at " << i;
    }
    for (std::size_t i = 0; i < edge; ++i) {
      ASSERT_TRUE(std::isnan(host[i]) && std::isnan(host[edge + length + i])) << what << ": written outside, " << i;
    }
  }
};

template <class T>
void check(const ConvShape& s, bool relu, double tolerance) {
  const Reference reference(s, 11);
  const ExecutionSpace exec;
  const Guarded<T> x(reference.x), weights(reference.weights), bias(reference.bias), dy(reference.dy);
  // Sized for a larger batch, as the last batch of an epoch finds it.
  ConvShape larger = s;
  larger.batch += 5;
  const Buffer<std::byte> workspace("workspace", conv_workspace<T>(larger));
  const Guarded<T> y(reference.y), dx(reference.x), dweights(reference.weights), dbias(reference.bias);
  std::vector<double> expected_y = reference.y, expected_dx = reference.dx;
  for (std::size_t i = 0; relu && i < expected_y.size(); ++i) expected_y[i] = std::max(expected_y[i], 0.0);
  for (std::size_t i = 0; i < expected_dx.size(); ++i) {  // dx starts as x, and x is what a ReLU gave
    expected_dx[i] += static_cast<double>(static_cast<T>(reference.x[i]));
    if (relu && !(reference.x[i] > 0)) expected_dx[i] = 0;
  }
  conv_forward<T>(exec, s, x.values(), weights.values(), bias.values(), relu, y.values(), workspace);
  y.expect(expected_y, chosen_tolerance<T>(s, host::ConvPass::forward, tolerance), "y");
  const Vector<const T> relu_output = relu ? Vector<const T>(x.values()) : Vector<const T>();
  conv_backward_data<T>(exec, s, dy.values(), weights.values(), relu_output, dx.values(), true, workspace);
  dx.expect(expected_dx, chosen_tolerance<T>(s, host::ConvPass::data, tolerance), "dx");
  conv_backward_weights<T>(exec, s, x.values(), dy.values(), dweights.values(), dbias.values(), workspace);
  dweights.expect(reference.dweights, chosen_tolerance<T>(s, host::ConvPass::weights, tolerance), "dweights");
  dbias.expect(reference.dbias, tolerance, "dbias");
}

template <class Family>
void check_family(const Family& family, int count) {
  Draw generator(2026);
  for (int i = 0; i < count; ++i) {
    const ConvShape s = family(generator);
    SCOPED_TRACE(::testing::PrintToString(s));
    check<double>(s, i % 2 == 0, 1e-12);
    check<float>(s, i % 2 == 1, 3e-6);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ConvProperty, GeneralShapesMatchDefinition) {
  check_family(general, 100);
}
TEST(ConvProperty, StridedShapesMatchDefinition) {
  check_family(strided, 100);
}
TEST(ConvProperty, DepthwiseShapesMatchDefinition) {
  check_family(depthwise, 100);
  check_family(long_depthwise, 12);
}
TEST(ConvProperty, FewChannelsMatchDefinition) {
  check_family(few_channels, 60);
}
TEST(ConvProperty, DenseLayersMatchDefinition) {
  check_family(dense, 60);
}
TEST(ConvProperty, ManyWeightsMatchDefinition) {
  check_family(many_weights, 2);
}
TEST(ConvProperty, ManyColumnsMatchDefinition) {
  for (const int kernel : {1, 3}) {
    check_family([kernel](Draw& generator) { return many_columns(generator, kernel); }, 2);
  }
}
TEST(ConvProperty, SmallImagesMatchDefinition) {
  check_family(small_images, 60);
}

}  // namespace
}  // namespace halograd::conv_property_test
