// Label smoothing, binary cross-entropy and mean squared error; softmax cross-entropy itself is in loss_test.cpp.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/error.hpp"
#include "kernels/loss.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::voxel_loss_test {
namespace {

using Labels = std::vector<std::int32_t>;

Labels some_labels(long rows, int classes) {
  Labels labels;
  for (long row = 0; row < rows; ++row) {
    labels.push_back(static_cast<std::int32_t>(random_bits(17, static_cast<std::uint64_t>(row)) % classes));
  }
  return labels;
}

/// Each loss as a function of (x, labels, scale, gradient), a row of `width` values a label.
template <class T>
LossSum loss_of(const std::string& name, int width, const std::vector<T>& x, const Labels& labels, double scale = 1,
                const Buffer<T>& gradient = {}) {
  const ExecutionSpace exec;
  const auto outputs = to_device(x);
  const auto device_labels = to_device(labels);
  const LossMemory memory;
  const LossBatch<T> batch{.rows = static_cast<long>(labels.size()),
                           .width = width,
                           .outputs = outputs,
                           .labels = device_labels,
                           .scale = scale,
                           .gradient = gradient};
  if (name == "smooth") {
    softmax_cross_entropy(exec, batch, 0.1, memory);
  } else if (name == "binary" || name == "smooth_binary") {
    binary_cross_entropy(exec, batch, name == "binary" ? 0 : 0.1, memory);
  } else {
    mean_squared_error(exec, batch, memory);
  }
  return memory.read(exec);
}

/// torch.nn.functional at x = [0.5, -1.25, 2, -0.75, 0.25, 1.5], in double.
TEST(VoxelLossTest, ValuesArePyTorchs) {
  const std::vector<double> x{0.5, -1.25, 2, -0.75, 0.25, 1.5};
  EXPECT_NEAR(loss_of<double>("smooth", 3, x, {2, 0}).loss, 2.8632945925092566, 1e-12);
  const LossSum binary = loss_of<double>("binary", 1, x, {1, 0, 0, 1, 0, 1});
  EXPECT_NEAR(binary.loss, 5.017157780544949, 1e-12);
  EXPECT_EQ(binary.correct, 3);
  EXPECT_EQ(binary.overlap, 2);  // places 0 and 5
  EXPECT_EQ(binary.either, 5);   // all but place 1
  // with the targets 0.95 and 0.05
  EXPECT_NEAR(loss_of<double>("smooth_binary", 1, x, {1, 0, 0, 1, 0, 1}).loss, 5.029657780544948, 1e-12);
  const LossSum onehot = loss_of<double>("squared", 3, x, {2, 0});
  EXPECT_NEAR(onehot.loss, 2.7291666666666665, 1e-12);
  EXPECT_EQ(onehot.correct, 1);
  const LossSum number = loss_of<double>("squared", 1, x, {1, 0, 2, 0, 0, 2});
  EXPECT_NEAR(number.loss, 2.6875, 1e-12);
  EXPECT_EQ(number.correct, 2);  // 2 and 0.25; 0.5 and 1.5 are as near to another number
}

TEST(VoxelLossTest, GradientsAgreeWithCentralDifferences) {
  for (const auto& [name, width] : {std::pair<std::string, int>{"smooth", 7},
                                    {"binary", 1},
                                    {"smooth_binary", 1},
                                    {"squared", 5},
                                    {"squared", 1}}) {
    const long rows = 40;
    const auto x = noise<double>(rows * width, 2, -3, 3);
    const Labels labels = some_labels(rows, name.ends_with("binary") ? 2 : width == 1 ? 3 : width);
    const Buffer<double> gradient("gradient", x.size());
    loss_of<double>(name, width, x, labels, 0.5, gradient);
    expect_gradient([&, n = name, w = width](const auto& v) { return 0.5 * loss_of<double>(n, w, v, labels).loss; }, x,
                    to_host(gradient), 1e-8);
    const Buffer<float> narrow("narrow", x.size());
    loss_of<float>(name, width, {x.begin(), x.end()}, labels, 0.5, narrow);
    const auto found = to_host(narrow);
    const auto expected = to_host(gradient);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(found[i], expected[i], 4e-6) << name << " " << i;
  }
}

/// Against sum_rows mean_k (x - t)^2 and its derivative 2 (x - t) / K by hand.
TEST(VoxelLossTest, SquaredDistanceToRealNumbers) {
  const ExecutionSpace exec;
  const Buffer<double> gradient("gradient", 6);
  const std::vector<double> x{0.5, -1.25, 2, -0.75, 0.25, 1.5}, targets{0.25, -1.25, 3.5, 0.25, 0.25, -0.5};
  const auto outputs = to_device(x), numbers = to_device(targets);
  const LossMemory memory;
  const LossBatch<double> batch{.rows = 2, .width = 3, .outputs = outputs, .scale = 0.75, .gradient = gradient};
  mean_squared_error<double>(exec, batch, numbers, memory);
  const LossSum sum = memory.read(exec);
  EXPECT_NEAR(sum.loss, (0.0625 + 0 + 2.25) / 3 + (1 + 0 + 4.0) / 3, 1e-15);
  const std::vector<double> expected{0.125, 0, -0.75, -0.5, 0, 1};
  const auto found = to_host(gradient);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
  const Buffer<double> five("five", 5);
  EXPECT_THROW(mean_squared_error<double>(exec, batch, five, memory), Error);
}

TEST(VoxelLossTest, FarLogitsNeitherOverflowNorVanish) {
  const Buffer<float> gradient("gradient", 4);
  const LossSum sum = loss_of<float>("binary", 1, {1e4F, -1e4F, 1e4F, -1e4F}, {1, 0, 0, 1}, 1, gradient);
  EXPECT_NEAR(sum.loss, 2e4, 1e-9);
  EXPECT_EQ(to_host(gradient), (std::vector<float>{0, 0, 1, -1}));
}

TEST(VoxelLossTest, BadLabelsAndNotANumberShow) {
  for (const std::int32_t label : {-1, 2})
    EXPECT_TRUE(std::isnan(loss_of<float>("binary", 1, {1, 2}, {0, label}).loss));
  const LossSum sum = loss_of<float>("binary", 1, {std::nanf("")}, {0});
  EXPECT_TRUE(std::isnan(sum.loss));
  EXPECT_EQ(sum.correct, 0);
  EXPECT_TRUE(std::isnan(loss_of<float>("squared", 2, {1, std::nanf("")}, {0}).loss));
}

TEST(VoxelLossTest, RefuseShortBuffers) {
  const Buffer<float> two("two", 2);
  EXPECT_THROW(loss_of<float>("binary", 1, {1, 2}, {0, 1, 1}), Error);
  EXPECT_THROW(loss_of<float>("squared", 2, {1, 2, 3}, {0, 1}), Error);
  EXPECT_THROW(loss_of<float>("squared", 2, {1, 2, 3, 4}, {0, 1}, 1, two), Error);
}

}  // namespace
}  // namespace halograd::voxel_loss_test
