#include "kernels/conv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/device/conv.hpp"
#include "kernels/error.hpp"
#include "kernels/host/conv.hpp"
#include "tests/kernels/conv_reference.hpp"

namespace halograd::conv_test {

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

  const Buffer<std::byte> device_workspace("device workspace", device::conv_workspace<T>(s));
  device::conv_forward<T>(exec, s, x, weights, bias, true, y, device_workspace);
  expect_near(rectified, y, tolerance, "device y with ReLU");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, device_workspace);
  device::conv_backward_data<T>(exec, s, dy, weights, x, dx, true, device_workspace);
  expect_near(masked, dx, tolerance, "device dx through a ReLU");
  device::conv_forward<T>(exec, s, x, weights, bias, false, y, device_workspace);
  expect_near(reference.y, y, tolerance, "device y");
  device::conv_backward_data<T>(exec, s, dy, weights, {}, dx, false, device_workspace);
  expect_near(reference.dx, dx, tolerance, "device dx");
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

INSTANTIATE_TEST_SUITE_P(Layers, ConvShapes, ::testing::ValuesIn(layer_shapes()));

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
}  // namespace halograd::conv_test
