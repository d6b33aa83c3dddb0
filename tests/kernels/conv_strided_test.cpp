// The data gradient of few channels with stride 2 x 2, all phases of dx at a time.

#include <gtest/gtest.h>

#include <vector>

#include "kernels/host/direct.hpp"
#include "tests/kernels/conv_reference.hpp"
#include "tests/kernels/thread_bits.hpp"

namespace halograd::conv_strided_test {
namespace {

template <class T>
std::vector<T> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class T>
void data_gradient(const ConvShape& s, const std::vector<T>& dy, const std::vector<T>& weights, const T* relu_output,
                   bool accumulate, std::vector<T>& dx) {
  const Kokkos::View<std::byte*, Kokkos::HostSpace> workspace("workspace", host::strided_workspace<T>(s));
  Kokkos::deep_copy(workspace, std::byte{0xff});  // what nobody has written must not matter
  host::strided_backward_data<T>(host::Exec(), s, dy.data(), weights.data(), relu_output, dx.data(), accumulate,
                                 workspace.data());
}

template <class T>
void check_shape(const ConvShape& s, double tolerance) {
  const Reference reference(s, 5);
  const auto dy = rounded<T>(reference.dy), weights = rounded<T>(reference.weights), x = rounded<T>(reference.x);
  for (const bool accumulate : {false, true}) {
    for (const bool masked : {false, true}) {
      std::vector<double> expected = reference.dx;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (accumulate) expected[i] += 7;
        if (masked && !(x[i] > 0)) expected[i] = 0;
      }
      std::vector<T> dx(x.size(), T(7));
      data_gradient<T>(s, dy, weights, masked ? x.data() : nullptr, accumulate, dx);
      expect_near(expected, dx, tolerance, masked ? (accumulate ? "added, masked" : "masked") : "plain");
    }
  }
}

ConvShape volume(ConvShape s, int depth, int kernel, int stride, int padding) {
  s.extent[0] = depth;
  s.kernel[0] = kernel;
  s.stride[0] = stride;
  s.padding[0] = padding;
  return s;
}

ConvShape line(int batch, int width, int channels, int filters, int kernel) {
  ConvShape s = image(batch, 1, width, channels, filters, kernel, 2, 1);
  s.kernel[1] = 1;
  s.padding[1] = 0;
  return s;
}

std::vector<ConvShape> strided_shapes() {
  return {image(3, 32, 32, 16, 32, 3, 2, 1),
          image(3, 32, 32, 16, 32, 1, 2),
          image(2, 16, 16, 32, 64, 3, 2, 1),
          image(9, 8, 8, 16, 20, 3, 2, 1),     // one position of many images at a time
          image(13, 5, 3, 17, 9, 3, 2, 1),     // the same, odd extents
          image(2, 9, 11, 20, 5, 3, 2, 1),     // odd extents, a part of a pack
          image(2, 11, 9, 17, 33, 3, 2),       // no padding: pixels of dx that nothing reaches
          image(1, 12, 10, 5, 7, 3, 2, 2, 2),  // dilation 2: one phase has all the taps
          image(1, 12, 10, 5, 7, 3, 2, 1, 2),
          image(1, 13, 10, 16, 7, 3, 2, 3, 3),
          image(1, 15, 15, 3, 8, 7, 2, 3),
          image(1, 8, 9, 33, 3, 2, 2),
          image(1, 8, 8, 16, 3, 4, 2, 3),
          image(1, 1, 1, 16, 16, 1, 2),
          image(40, 1, 1, 16, 16, 3, 2, 1),
          image(1, 1, 2, 16, 16, 3, 2, 1),
          image(1, 2, 1, 1, 1, 2, 2),
          line(2, 37, 8, 6, 5),
          volume(image(2, 7, 6, 16, 9, 3, 2, 1), 5, 3, 1, 1),
          volume(image(2, 7, 6, 16, 9, 3, 2, 1), 5, 3, 2, 1),
          volume(image(1, 7, 6, 18, 9, 1, 2), 7, 1, 3, 0)};
}

class StridedShapes : public ::testing::TestWithParam<ConvShape> {};

TEST_P(StridedShapes, MatchDefinitionInDouble) {
  check_shape<double>(GetParam(), 1e-12);
}
TEST_P(StridedShapes, MatchDefinitionInFloat) {
  check_shape<float>(GetParam(), 3e-6);
}

INSTANTIATE_TEST_SUITE_P(ConvStrided, StridedShapes, ::testing::ValuesIn(strided_shapes()));

TEST(ConvStrided, IsChosenForFewChannels) {
  EXPECT_TRUE(host::has_strided_data(image(128, 32, 32, 16, 32, 3, 2, 1)));
  EXPECT_TRUE(host::has_strided_data(image(1, 33, 31, 5, 32, 1, 2)));
  EXPECT_TRUE(host::has_strided_data(volume(image(1, 8, 8, 16, 16, 3, 2, 1), 8, 3, 2, 1)));
  EXPECT_FALSE(host::has_strided_data(image(128, 32, 32, 128, 256, 3, 2, 1)));
  EXPECT_FALSE(host::has_strided_data(image(128, 32, 32, 16, 32, 3, 1, 1)));
  EXPECT_FALSE(host::has_strided_data(image(128, 32, 32, 16, 32, 3, 3, 1)));
  EXPECT_FALSE(host::has_strided_data(image(128, 32, 32, 16, 32, 3, 2, 1, 1, 2)));
}

TEST(ConvStrided, WorkspaceServesSmallerBatches) {
  const std::size_t enough = host::strided_workspace<float>(image(100, 32, 32, 16, 32, 3, 2, 1));
  for (int batch = 1; batch < 100; ++batch) {
    EXPECT_LE(host::strided_workspace<float>(image(batch, 32, 32, 16, 32, 3, 2, 1)), enough) << batch;
  }
}

TEST(ConvStrided, DISABLED_WritesBits) {
  BitWriter out;
  for (const ConvShape& s : strided_shapes()) {
    const Reference reference(s, 9);
    std::vector<float> dx = rounded<float>(reference.x);
    const std::vector<float> relu_output = dx;
    data_gradient<float>(s, rounded<float>(reference.dy), rounded<float>(reference.weights), relu_output.data(), true,
                         dx);
    out.write(dx);
  }
}

TEST(ConvStrided, BitsDoNotDependOnThreads) {
  expect_same_bits_with_any_threads("ConvStrided.DISABLED_WritesBits", 100000);
}

}  // namespace
}  // namespace halograd::conv_strided_test
