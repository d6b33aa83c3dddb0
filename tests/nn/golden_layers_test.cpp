// Losses and gradients of small networks against PyTorch's, made by tests/nn/golden_layers.py in double.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "run/read.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/nn/golden_file.hpp"

namespace halograd::golden_layers_test {
namespace {

Shape shape_of(const std::vector<double>& numbers) {
  const int axes = static_cast<int>(numbers.size()) - 1;
  std::array<int, 3> extents{1, 1, 1};
  for (int i = 0; i < axes; ++i) extents[3 - axes + i] = static_cast<int>(numbers[i]);
  return {extents, static_cast<int>(numbers.back()), axes};
}

class GoldenLayers : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenLayers, LossAndGradientArePyTorchs) {
  const GoldenFile file("golden_layers.h5");
  const std::string group = GetParam();
  const RunConfig config = parse_config(file.config(group), group);
  const Shape shape = shape_of(file.values(group + "/shape"));
  const std::vector<double> image_values = file.values(group + "/images"),
                            label_values = file.values(group + "/labels");
  const std::vector<float> images(image_values.begin(), image_values.end());
  const std::vector<std::int32_t> labels(label_values.begin(), label_values.end());
  const int batch = static_cast<int>(static_cast<long>(images.size()) / shape.values());
  const long labels_per_image = static_cast<long>(labels.size()) / batch;
  const int classes = labels_per_image > 1 ? 2 : config.network.layers.back().channels;
  Network network(config.network, shape, Target(classes, labels_per_image, config.loss), batch);
  const Replica replica = network.make_replica(1);
  Kokkos::deep_copy(replica.parameters, to_device<float>(flat(file, group + "/initial", network.parameters())));

  const LossSum loss = network.train(ExecutionSpace(), replica, {batch, images.data(), labels.data()}, 0);
  EXPECT_NEAR(loss.loss / batch, file.values(group + "/loss")[0], 2e-6);
  expect_close(flat(file, group + "/gradient", network.parameters()), to_host(replica.gradients), 5e-6, "gradient");
}

INSTANTIATE_TEST_SUITE_P(Networks, GoldenLayers, ::testing::Values("volume", "image", "row"),
                         [](const auto& network) { return network.param; });

}  // namespace
}  // namespace halograd::golden_layers_test
