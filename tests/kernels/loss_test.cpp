#include "kernels/loss.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::loss_test {
namespace {

template <class T>
class LossTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LossTest, Reals);

std::vector<std::int32_t> some_labels(long rows, int classes) {
  std::vector<std::int32_t> labels;
  for (long row = 0; row < rows; ++row) {
    labels.push_back(static_cast<std::int32_t>(random_bits(17, static_cast<std::uint64_t>(row)) % classes));
  }
  return labels;
}

template <class T>
LossSum loss_of(const std::vector<T>& logits, const std::vector<std::int32_t>& labels, int classes) {
  const auto device_logits = to_device(logits);
  const auto device_labels = to_device(labels);
  const LossMemory memory;
  softmax_cross_entropy<T>(
      ExecutionSpace(),
      {.rows = static_cast<long>(labels.size()), .width = classes, .outputs = device_logits, .labels = device_labels},
      0, memory);
  return memory.read(ExecutionSpace());
}

TYPED_TEST(LossTest, SoftmaxAgreesWithAPlainLoop) {
  using T = TypeParam;
  for (const long rows : {0L, 1L, 37L, 1000L}) {
    for (const int width : {1, 2, 10, 100}) {
      std::vector<T> logits = noise<T>(static_cast<std::size_t>(rows * width), 1, -5, 5);
      if (rows > 1) logits[static_cast<std::size_t>(width)] = 1000;  // whose exponential overflows
      const auto values = to_device(logits);
      softmax<T>(ExecutionSpace(), rows, width, values);
      const std::vector<T> found = to_host(values);
      for (long row = 0; row < rows; ++row) {
        const T* from = logits.data() + row * width;
        const double largest = static_cast<double>(*std::max_element(from, from + width));
        double sum = 0;
        for (int k = 0; k < width; ++k) sum += std::exp(static_cast<double>(from[k]) - largest);
        for (int k = 0; k < width; ++k) {
          ASSERT_NEAR(static_cast<double>(found[static_cast<std::size_t>(row * width + k)]),
                      std::exp(static_cast<double>(from[k]) - largest) / sum, 1e-6);
        }
      }
    }
  }
  EXPECT_THROW(softmax<T>(ExecutionSpace(), 3, 2, to_device(std::vector<T>(5))), Error);
}

TYPED_TEST(LossTest, AgreesWithAPlainLoop) {
  using T = TypeParam;
  const ExecutionSpace exec;
  for (const long rows : {0L, 1L, 2L, 37L, 1000L}) {
    for (const int classes : {1, 2, 3, 10, 100}) {
      const std::size_t values = static_cast<std::size_t>(rows) * classes;
      const auto logits = noise<T>(values, 1, -5, 5);
      const auto labels = some_labels(rows, classes);
      const double scale = 0.37;
      double loss = 0;
      long correct = 0;
      std::vector<double> expected(values);
      for (long row = 0; row < rows; ++row) {
        const T* from = logits.data() + row * classes;
        double sum = 0;
        int best = 0;
        for (int k = 0; k < classes; ++k) {
          sum += std::exp(static_cast<double>(from[k]));
          if (from[k] > from[best]) best = k;
        }
        loss += std::log(sum) - from[labels[row]];
        correct += best == labels[row];
        for (int k = 0; k < classes; ++k) {
          expected[row * classes + k] = scale * (std::exp(static_cast<double>(from[k])) / sum - (k == labels[row]));
        }
      }
      const auto device_logits = to_device(logits);
      const auto device_labels = to_device(labels);
      const Buffer<T> gradient("gradient", values);
      const LossMemory memory;
      LossBatch<T> batch{.rows = rows,
                         .width = classes,
                         .outputs = device_logits,
                         .labels = device_labels,
                         .scale = scale,
                         .gradient = gradient};
      softmax_cross_entropy(exec, batch, 0, memory);
      const LossSum found = memory.read(exec);
      EXPECT_NEAR(found.loss, loss, tolerance<T> * (1 + loss));
      EXPECT_EQ(found.correct, correct);
      const auto found_gradient = to_host(gradient);
      for (std::size_t i = 0; i < values; ++i) ASSERT_NEAR(found_gradient[i], expected[i], tolerance<T>) << i;

      const auto again = loss_of(logits, labels, classes);  // without a gradient, and the same bits
      EXPECT_EQ(again.loss, found.loss);
      batch.gradient = device_logits;
      softmax_cross_entropy(exec, batch, 0, memory);
      EXPECT_EQ(to_host(device_logits), found_gradient);
    }
  }
}

/// The sum of these by a scalar reduction over the same range.
double scalar_sum(const std::vector<double>& values) {
  const Buffer<double> device = to_device(values);
  double sum = 0;
  Kokkos::parallel_reduce(
      "sum", Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<long>>(0, static_cast<long>(values.size())),
      KOKKOS_LAMBDA(const long i, double& s) { s += device(static_cast<std::size_t>(i)); }, sum);
  return sum;
}

TEST(LossMemory, HoldsTheBitsOfAScalarReduction) {
  const long rows = 1013;
  const int classes = 10;
  const auto logits = noise<float>(rows * classes, 3, -5, 5);
  const auto labels = some_labels(rows, classes);
  std::vector<double> of_rows;
  for (long row = 0; row < rows; ++row) {
    const auto from = logits.begin() + row * classes;
    of_rows.push_back(loss_of<float>({from, from + classes}, {labels[row]}, classes).loss);
  }
  EXPECT_EQ(loss_of(logits, labels, classes).loss, scalar_sum(of_rows));
}

TEST(LossGradientTest, AgreesWithCentralDifferences) {
  const long rows = 4;
  const int classes = 7;
  const auto logits = noise<double>(rows * classes, 2, -3, 3);
  const auto labels = some_labels(rows, classes);
  const Buffer<double> gradient("gradient", logits.size());
  const auto device_logits = to_device(logits);
  const auto device_labels = to_device(labels);
  softmax_cross_entropy<double>(ExecutionSpace(),
                                {.rows = rows,
                                 .width = classes,
                                 .outputs = device_logits,
                                 .labels = device_labels,
                                 .scale = 0.5,
                                 .gradient = gradient},
                                0, LossMemory());
  const auto found = to_host(gradient);
  const double step = 1e-5;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    auto up = logits;
    auto down = logits;
    up[i] += step;
    down[i] -= step;
    const double slope = (loss_of(up, labels, classes).loss - loss_of(down, labels, classes).loss) / (2 * step);
    EXPECT_NEAR(found[i], 0.5 * slope, 1e-9);
  }
}

TYPED_TEST(LossTest, LargeLogitsDoNotOverflow) {
  using T = TypeParam;
  const std::vector<T> logits = {T(10000), T(9999), T(-10000), T(-20000), T(-20001), T(-20000)};
  const auto found = loss_of<T>(logits, {1, 2}, 3);
  EXPECT_NEAR(found.loss, 1 + std::log1p(std::exp(-1.0)) + std::log(2 + std::exp(-1.0)), 2 * tolerance<T>);
  EXPECT_EQ(found.correct, 0);
}

TYPED_TEST(LossTest, OfEqualLogitsTheFirstIsTheAnswer) {
  using T = TypeParam;
  EXPECT_EQ(loss_of<T>({T(1), T(1), T(0)}, {0}, 3).correct, 1);
  EXPECT_EQ(loss_of<T>({T(1), T(1), T(0)}, {1}, 3).correct, 0);
}

TYPED_TEST(LossTest, ABadLabelShows) {
  using T = TypeParam;
  const std::vector<T> logits = {T(1), T(2), T(3), T(4)};
  for (const std::int32_t label : {-1, 2, 1000000000, -1000000000}) {
    const auto found = loss_of<T>(logits, {1, label}, 2);
    EXPECT_TRUE(std::isnan(found.loss));
    EXPECT_EQ(found.correct, 1);
  }
}

TYPED_TEST(LossTest, NotANumberShows) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T infinity = std::numeric_limits<T>::infinity();
  for (const std::vector<T>& logits : {std::vector<T>{nan, T(1)}, {T(1), nan}, {infinity, T(1)}}) {
    const auto found = loss_of<T>(logits, {0}, 2);
    EXPECT_TRUE(std::isnan(found.loss));
    EXPECT_EQ(found.correct, 0);
  }
}

TYPED_TEST(LossTest, RefusesShortBuffers) {
  using T = TypeParam;
  const ExecutionSpace exec;
  const Buffer<T> six("six", 6);
  const Buffer<T> five("five", 5);
  const Buffer<std::int32_t> labels("labels", 2);
  const auto run = [&](long rows, int classes, const Buffer<T>& logits, const Buffer<T>& gradient) {
    softmax_cross_entropy<T>(
        exec, {.rows = rows, .width = classes, .outputs = logits, .labels = labels, .gradient = gradient}, 0,
        LossMemory());
  };
  EXPECT_NO_THROW(run(2, 3, six, six));
  EXPECT_THROW(run(2, 3, five, six), Error);
  EXPECT_THROW(run(2, 3, six, five), Error);
  EXPECT_THROW(run(3, 2, six, six), Error);
  EXPECT_THROW(run(2, 0, six, six), Error);
}

}  // namespace
}  // namespace halograd::loss_test
