#include "kernels/host/winograd.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/kernels/conv_reference.hpp"
#include "tests/kernels/differences.hpp"
#include "tests/kernels/thread_bits.hpp"

namespace halograd::winograd_test {
namespace {

/// The three Winograd passes on the host, whatever would be chosen for the shape.
template <class T>
struct Passes {
  const ConvShape& s;
  const host::Exec exec{};
  std::vector<std::byte> memory;
  std::byte* workspace;

  explicit Passes(const ConvShape& shape) : s(shape), memory(host::winograd_workspace<T>(shape) + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    workspace = memory.data() + (64 - address % 64) % 64;
    // What nobody has written must not matter.
    std::fill(memory.begin(), memory.end(), std::byte{0xff});
  }
  std::vector<T> forward(const std::vector<T>& x, const std::vector<T>& weights, const std::vector<T>& bias,
                         bool relu) {
    std::vector<T> y(static_cast<std::size_t>(s.out_pixels() * s.filters), T(7));
    host::winograd_forward<T>(exec, s, x.data(), weights.data(), bias.data(), relu, y.data(), workspace);
    return y;
  }
  void data(const std::vector<T>& dy, const std::vector<T>& weights, const T* relu_output, bool accumulate,
            std::vector<T>& dx) {
    host::winograd_backward_data<T>(exec, s, dy.data(), weights.data(), relu_output, dx.data(), accumulate, workspace);
  }
  void weights(const std::vector<T>& x, const std::vector<T>& dy, std::vector<T>& dweights, std::vector<T>& dbias) {
    host::winograd_backward_weights<T>(exec, s, x.data(), dy.data(), dweights.data(), dbias.data(), workspace);
  }
};

void check_shape(const ConvShape& s) {
  ASSERT_TRUE(host::winograd_applies(s));
  const Reference reference(s, 11);
  Passes<double> passes(s);
  expect_near(reference.y, passes.forward(reference.x, reference.weights, reference.bias, false), 1e-12, "y");
  std::vector<double> expected = reference.y;
  for (double& value : expected) value = std::max(value, 0.0);
  expect_near(expected, passes.forward(reference.x, reference.weights, reference.bias, true), 1e-12, "y with ReLU");

  std::vector<double> dx(reference.x.size(), 7.0);
  passes.data(reference.dy, reference.weights, nullptr, false, dx);
  expect_near(reference.dx, dx, 1e-12, "dx");
  passes.data(reference.dy, reference.weights, reference.x.data(), true, dx);
  expected.resize(dx.size());
  for (std::size_t i = 0; i < dx.size(); ++i) expected[i] = reference.x[i] > 0 ? 2 * reference.dx[i] : 0;
  expect_near(expected, dx, 1e-12, "dx, accumulated, through a ReLU");

  std::vector<double> dweights(reference.weights.size(), 7.0), dbias(reference.bias.size(), 7.0);
  passes.weights(reference.x, reference.dy, dweights, dbias);
  expect_near(reference.dweights, dweights, 1e-12, "dweights");
  expect_near(reference.dbias, dbias, 1e-12, "dbias");
}

class WinogradShapes : public ::testing::TestWithParam<ConvShape> {};

TEST_P(WinogradShapes, MatchDefinition) {
  check_shape(GetParam());
}

ConvShape slices() {
  ConvShape s = image(2, 7, 6, 9, 18, 3, 1, 1);
  s.extent[0] = 3;
  return s;
}

/// Volumes of `slices` slices, with a kernel of `taps` slices.
// Whole and partial tiles, none and more padding than the kernel needs, one channel, channels that fill no vector, many
// channels on few pixels (kernels transformed block by block), slices of a volume, tiles enough for 4 and 24 parts of
// the weight gradient; volumes that are one block, or cut along slices and tiles, and one of a single slice; data
// gradients by tiles of dy, with and without padding.
INSTANTIATE_TEST_SUITE_P(
    Layers, WinogradShapes,
    ::testing::Values(image(2, 8, 8, 16, 16, 3, 1, 1), image(1, 7, 5, 17, 33, 3, 1, 1), image(3, 12, 12, 20, 50, 5),
                      image(2, 9, 6, 4, 7, 5, 1, 2), image(1, 3, 3, 1, 1, 3), image(1, 1, 1, 1, 1, 3, 1, 1),
                      image(2, 5, 9, 3, 100, 3, 1, 2), image(1, 6, 6, 2, 3, 3, 1, 4), image(1, 5, 5, 1, 2, 5),
                      image(1, 2, 3, 5, 6, 5, 1, 4), image(40, 4, 4, 80, 70, 3, 1, 1),
                      image(3, 4, 4, 256, 224, 3, 1, 1), image(2, 40, 40, 5, 6, 3, 1, 1), slices(),
                      image(9, 32, 32, 5, 6, 3, 1, 1), image(97, 32, 32, 3, 2, 3, 1, 1),
                      volume(image(2, 7, 6, 9, 18, 3, 1, 1), 5, 3, 1), volume(image(3, 9, 9, 9, 17, 3, 1, 1), 8, 3, 1),
                      volume(image(1, 17, 20, 20, 9, 3, 1, 1), 40, 3, 0),
                      volume(image(2, 9, 9, 6, 5, 5, 1, 2), 7, 5, 3), volume(image(2, 6, 9, 5, 6, 3, 1, 1), 1, 3, 1),
                      volume(image(2, 6, 9, 5, 6, 3, 1, 1), 4, 1, 1), volume(image(1, 6, 9, 5, 6, 3, 1, 1), 3, 2, 4),
                      image(3, 10, 10, 9, 18, 3), image(5, 6, 6, 40, 33, 3), image(2, 10, 10, 17, 20, 5, 1, 1)));

TEST(Winograd, RandomShapesMatchDefinition) {
  std::mt19937 generator(77);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
  for (int i = 0; i < 60; ++i) {
    const int kernel = draw(0, 1) == 0 ? 3 : 5;
    ConvShape s = image(draw(1, 3), draw(1, 14), draw(1, 14), draw(1, 40), draw(1, 40), kernel);
    if (i % 3 == 0) s = volume(s, draw(1, 6), draw(1, 4), draw(0, 3));
    s.padding = {s.padding[0], draw(0, kernel), draw(0, kernel)};
    for (int axis : {0, 1, 2}) {
      while (s.out_extent()[axis] < 1) ++s.padding[axis];
    }
    SCOPED_TRACE(::testing::PrintToString(s));
    check_shape(s);
    if (HasFatalFailure()) return;
  }
}

TEST(Winograd, AppliesToUnitStepsOnly) {
  EXPECT_FALSE(host::winograd_applies(image(1, 8, 8, 16, 16, 3, 2, 1)));
  EXPECT_FALSE(host::winograd_applies(image(1, 8, 8, 16, 16, 3, 1, 1, 2)));
  EXPECT_FALSE(host::winograd_applies(image(1, 8, 8, 16, 16, 3, 1, 1, 1, 2)));
  EXPECT_FALSE(host::winograd_applies(image(1, 8, 8, 16, 16, 1)));
  EXPECT_FALSE(host::winograd_applies(image(1, 8, 8, 16, 16, 7, 1, 3)));
  ConvShape strided = volume(image(1, 8, 8, 16, 16, 3, 1, 1), 5, 3, 1);
  EXPECT_TRUE(host::winograd_applies(strided));
  strided.stride[0] = 2;
  EXPECT_FALSE(host::winograd_applies(strided));
}

TEST(Winograd, PaysOnTheLayersOfTheReferenceNetworks) {
  for (auto pass : {host::ConvPass::forward, host::ConvPass::data, host::ConvPass::weights}) {
    for (const ConvShape& s : {image(64, 32, 32, 64, 64, 3, 1, 1), image(64, 8, 8, 128, 256, 3, 1, 1),
                               image(128, 32, 32, 16, 16, 3, 1, 1), image(32, 4, 4, 512, 512, 3, 1, 1),
                               image(64, 12, 12, 20, 50, 5), volume(image(8, 16, 16, 32, 32, 3, 1, 1), 16, 3, 1)}) {
      EXPECT_TRUE(host::winograd_pays(s, pass)) << ::testing::PrintToString(s);
    }
    // Tiles that are mostly outside of the image, few channels, a stride, kernels too large to be kept transformed.
    for (const ConvShape& s :
         {image(64, 1, 1, 64, 64, 3, 1, 1), image(64, 2, 2, 64, 64, 3, 1, 1), image(64, 32, 32, 3, 64, 3, 1, 1),
          image(64, 32, 32, 64, 64, 3, 2, 1), volume(image(8, 16, 16, 256, 256, 3, 1, 1), 16, 3, 1)}) {
      EXPECT_FALSE(host::winograd_pays(s, pass)) << ::testing::PrintToString(s);
    }
  }
}

TEST(Winograd, DataGradientGoesByTheFewerTiles) {
  EXPECT_TRUE(host::adjoint_pays(image(64, 12, 12, 20, 50, 5)));
  EXPECT_TRUE(host::adjoint_pays(image(3, 10, 10, 9, 18, 3)));
  EXPECT_FALSE(host::adjoint_pays(image(64, 32, 32, 64, 64, 3, 1, 1)));
  EXPECT_FALSE(host::adjoint_pays(image(64, 34, 34, 64, 64, 3)));
  EXPECT_FALSE(host::adjoint_pays(image(64, 6, 6, 1024, 1024, 3)));  // its kernels would not be kept
  EXPECT_FALSE(host::adjoint_pays(volume(image(8, 6, 6, 16, 16, 3), 6, 3, 0)));
}

std::vector<double> normal_values(long count, double deviation, bool rectified, std::mt19937& generator) {
  std::normal_distribution<double> distribution(0, deviation);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = rectified ? std::max(0.0, distribution(generator)) : distribution(generator);
  return values;
}

double relative_error(const std::vector<double>& expected, const std::vector<float>& found) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error = larger_error(error, expected[i] - found[i]);
    scale = std::max(scale, std::abs(expected[i]));
  }
  return error / scale;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// The largest error in single precision against the direct kernels in double, in terms of the largest value, on layers
// of the reference networks: activations behind a ReLU, weights as they are initialised.
TEST(Winograd, SinglePrecisionStaysClose) {
  std::mt19937 generator(5);
  for (const ConvShape& s : {image(2, 32, 32, 16, 16, 3, 1, 1), image(2, 16, 16, 64, 64, 3, 1, 1),
                             image(2, 8, 8, 256, 256, 3, 1, 1), image(4, 4, 4, 512, 512, 3, 1, 1),
                             image(4, 12, 12, 20, 50, 5), volume(image(2, 16, 16, 32, 32, 3, 1, 1), 16, 3, 1)}) {
    SCOPED_TRACE(::testing::PrintToString(s));
    const auto x = normal_values(s.in_pixels() * s.channels, 1, true, generator);
    const auto weights = normal_values(s.weights(), std::sqrt(2.0 / (s.taps() * s.channels)), false, generator);
    const auto bias = normal_values(s.filters, 0.1, false, generator);
    const auto dy = normal_values(s.out_pixels() * s.filters, 1e-3, false, generator);
    std::vector<double> y(dy.size()), dx(x.size()), dweights(weights.size()), dbias(bias.size());
    std::vector<std::byte> memory(host::conv_workspace<double>(s));
    const host::Exec exec;
    host::conv_forward<double>(exec, s, x.data(), weights.data(), bias.data(), false, y.data(), memory.data());
    host::conv_backward_data<double>(exec, s, dy.data(), weights.data(), nullptr, dx.data(), false, memory.data());
    host::conv_backward_weights<double>(exec, s, x.data(), dy.data(), dweights.data(), dbias.data(), memory.data());

    Passes<float> passes(s);
    EXPECT_LT(relative_error(y, passes.forward(floats(x), floats(weights), floats(bias), false)), 1e-5) << "y";
    std::vector<float> found(dx.size()), found_dweights(weights.size()), found_dbias(bias.size());
    passes.data(floats(dy), floats(weights), nullptr, false, found);
    EXPECT_LT(relative_error(dx, found), 1e-5) << "dx";
    passes.weights(floats(x), floats(dy), found_dweights, found_dbias);
    EXPECT_LT(relative_error(dweights, found_dweights), 1e-5) << "dweights";
    EXPECT_LT(relative_error(dbias, found_dbias), 1e-5) << "dbias";
  }
}

// A network reserves memory for its largest batch.
TEST(Winograd, WorkspaceServesSmallerBatches) {
  for (ConvShape s : {image(100, 32, 32, 16, 16, 3, 1, 1), image(100, 8, 8, 256, 256, 3, 1, 1)}) {
    const std::size_t enough = host::winograd_workspace<float>(s);
    for (s.batch = 1; s.batch < 100; ++s.batch) EXPECT_LE(host::winograd_workspace<float>(s), enough) << s.batch;
  }
}

// Results of layers that are cut in blocks, of one whose data gradient goes by tiles of dy, of those whose sums are not
// kept, with 4, 8 and 24 parts of the weight gradient, and of volumes with several parts and one, for the test below.
TEST(Winograd, DISABLED_WritesBits) {
  BitWriter out;
  for (const ConvShape& s :
       {image(7, 30, 30, 20, 50, 3, 1, 1), image(7, 12, 12, 20, 50, 5), image(9, 4, 4, 300, 256, 3, 1, 1),
        image(9, 32, 32, 5, 6, 3, 1, 1), image(17, 32, 32, 16, 20, 3, 1, 1), image(49, 32, 32, 3, 4, 3, 1, 1),
        volume(image(3, 20, 20, 20, 36, 3, 1, 1), 30, 3, 1), volume(image(1, 16, 16, 70, 64, 3, 1, 1), 18, 3, 1)}) {
    const auto x = noise<float>(static_cast<std::size_t>(s.in_pixels() * s.channels), 1);
    const auto weights = noise<float>(static_cast<std::size_t>(s.weights()), 2);
    const auto dy = noise<float>(static_cast<std::size_t>(s.out_pixels() * s.filters), 3);
    const auto bias = noise<float>(static_cast<std::size_t>(s.filters), 4);
    Passes<float> passes(s);
    std::vector<float> dx(x.size()), dweights(weights.size()), dbias(bias.size());
    const std::vector<float> y = passes.forward(x, weights, bias, true);
    passes.data(dy, weights, nullptr, false, dx);
    passes.weights(x, dy, dweights, dbias);
    out.write(y);
    out.write(dx);
    out.write(dweights);
    out.write(dbias);
  }
}

TEST(Winograd, BitsDoNotDependOnThreads) {
  expect_same_bits_with_any_threads("Winograd.DISABLED_WritesBits", 1000000);
}

}  // namespace
}  // namespace halograd::winograd_test
