#include "kernels/conv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/device/conv.hpp"
#include "kernels/device/tile_results.hpp"
#include "kernels/error.hpp"
#include "kernels/host/conv.hpp"
#include "tests/kernels/conv_reference.hpp"

namespace halograd {

namespace {

/// All three passes against the definition, by whatever way is chosen for the shape and by the device's kernels.
template <class T>
void check_passes(const ConvShape& s, double tolerance) {
  const auto through = [&](host::ConvPass pass) { return chosen_tolerance<T>(s, pass, tolerance); };
  const double forward = through(host::ConvPass::forward), data = through(host::ConvPass::data),
               gradient = through(host::ConvPass::weights);
  const Reference reference(s, 7);
  const ExecutionSpace exec;
  const auto x = device_values<T>(reference.x), weights = device_values<T>(reference.weights),
             bias = device_values<T>(reference.bias), dy = device_values<T>(reference.dy);
  const Buffer<std::byte> workspace("workspace", conv_workspace<T>(s));
  const Buffer<T> y("y", reference.y.size()), dx("dx", reference.x.size()),
      dweights("dweights", reference.weights.size()), dbias("dbias", reference.bias.size());
  conv_forward<T>(exec, s, x, weights, bias, false, y, workspace);
  expect_near(reference.y, y, forward, "y");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, workspace);
  expect_near(reference.dx, dx, data, "dx");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, true, workspace);
  std::vector<double> twice = reference.dx;
  for (double& value : twice) value *= 2;
  expect_near(twice, dx, data, "dx accumulated");
  conv_backward_weights<T>(exec, s, x, dy, dweights, dbias, workspace);
  expect_near(reference.dweights, dweights, gradient, "dweights");
  expect_near(reference.dbias, dbias, tolerance, "dbias");

  // x as the output of a ReLU: its sign is the mask.
  std::vector<double> rectified = reference.y, masked = twice;
  for (double& value : rectified) value = std::max(value, 0.0);
  for (std::size_t i = 0; i < masked.size(); ++i) masked[i] = reference.x[i] > 0 ? masked[i] : 0;
  conv_forward<T>(exec, s, x, weights, bias, true, y, workspace);
  expect_near(rectified, y, forward, "y with ReLU");
  conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, workspace);
  conv_backward_data<T>(exec, s, dy, weights, x, dx, true, workspace);
  expect_near(masked, dx, data, "dx through a ReLU");

  device::conv_forward<T>(exec, s, x, weights, bias, true, y);
  expect_near(rectified, y, tolerance, "device y with ReLU");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false);
  device::conv_backward_data<T>(exec, s, dy, weights, x, dx, true);
  expect_near(masked, dx, tolerance, "device dx through a ReLU");
  device::conv_forward<T>(exec, s, x, weights, bias, false, y);
  expect_near(reference.y, y, tolerance, "device y");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false);
  expect_near(reference.dx, dx, tolerance, "device dx");
  const Buffer<std::byte> device_workspace("device workspace", device::conv_workspace<T>(s));
  device::conv_backward_weights<T>(exec, s, x, dy, dweights, dbias, device_workspace);
  expect_near(reference.dweights, dweights, tolerance, "device dweights");
  expect_near(reference.dbias, dbias, tolerance, "device dbias");
}

class ConvShapes : public ::testing::TestWithParam<ConvShape> {};

TEST_P(ConvShapes, MatchesDefinitionInDouble) {
  check_passes<double>(GetParam(), 1e-12);
}
TEST_P(ConvShapes, MatchesDefinitionInFloat) {
  check_passes<float>(GetParam(), 3e-6);
}

// The tiles for matrix units, whose products a host forms one by one: exact in float where both factors are rounded.
template <class Format>
void check_matrix_units(ConvShape s, Precision precision) {
  s.precision = precision;
  Reference rounded(s, 7);
  for (auto* values : {&rounded.x, &rounded.weights, &rounded.dy}) {
    for (double& value : *values) value = Format::rounded(static_cast<float>(value));
  }
  rounded.compute(s);
  const Reference given(s, 7);
  const ExecutionSpace exec;
  const auto x = device_values<float>(given.x), weights = device_values<float>(given.weights),
             bias = device_values<float>(given.bias), dy = device_values<float>(given.dy);
  const Buffer<std::byte> workspace("workspace", device::conv_workspace<float>(s));
  const Buffer<float> y("y", given.y.size()), dx("dx", given.x.size()), dweights("dweights", given.weights.size());
  device::conv_forward<float>(exec, s, x, weights, bias, false, y);
  if (s.filters / s.groups >= 4) expect_near(rounded.y, y, 3e-6, "y");
  device::conv_backward_data<float>(exec, s, dy, weights, {}, dx, false);
  if (s.channels / s.groups >= 4) expect_near(rounded.dx, dx, 3e-6, "dx");
  device::conv_backward_weights<float>(exec, s, x, dy, dweights, {}, workspace);
  expect_near(rounded.dweights, dweights, 3e-6, "dweights");
}
TEST_P(ConvShapes, DeviceKernelsMatchDefinitionOfRoundedValuesInTf32) {
  check_matrix_units<device::Tf32>(GetParam(), Precision::tf32);
}
TEST_P(ConvShapes, DeviceKernelsMatchDefinitionOfRoundedValuesInBf16) {
  check_matrix_units<device::Bf16>(GetParam(), Precision::bf16);
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

// Also where Winograd's way is chosen.
TEST_P(ConvShapes, DirectKernelsMatchDefinitionInFloat) {
  const ConvShape s = GetParam();
  const Reference reference(s, 7);
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  const auto x = floats(reference.x), weights = floats(reference.weights), bias = floats(reference.bias),
             dy = floats(reference.dy);
  const Kokkos::View<std::byte*, Kokkos::HostSpace> workspace("workspace", host::conv_workspace<float>(s));
  std::vector<float> y(reference.y.size()), dx(x.size()), dweights(weights.size()), dbias(bias.size());
  const host::Exec exec;
  host::conv_forward<float>(exec, s, x.data(), weights.data(), bias.data(), false, y.data(), workspace.data());
  host::conv_backward_data<float>(exec, s, dy.data(), weights.data(), nullptr, dx.data(), false, workspace.data());
  host::conv_backward_weights<float>(exec, s, x.data(), dy.data(), dweights.data(), dbias.data(), workspace.data());
  expect_near(reference.y, y, 3e-6, "y");
  expect_near(reference.dx, dx, 3e-6, "dx");
  expect_near(reference.dweights, dweights, 3e-6, "dweights");
  expect_near(reference.dbias, dbias, 3e-6, "dbias");
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
