#include "nn/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/error.hpp"
#include "kernels/float_bits.hpp"
#include "nn/reference_networks.hpp"
#include "run/read.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::network_test {
namespace {

struct Images {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  Images(int count, const Shape& shape, int classes)
      : values(shape.values() * static_cast<std::size_t>(count)), labels(static_cast<std::size_t>(count)) {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(generator);
    for (std::int32_t& label : labels) label = static_cast<std::int32_t>(generator() % static_cast<unsigned>(classes));
  }
  [[nodiscard]] HostBatch batch(int size) const { return {size, values.data(), labels.data()}; }
};

NetworkConfig layers(const std::string& list) {
  return parse_config("name = \"t\"\n[data]\nformat = \"synthetic\"\n[network]\nname = \"t\"\nlayer = [" + list + "]\n",
                      "test")
      .network;
}

std::string message_of(const std::string& list, const Shape& input, int classes) {
  try {
    const Network network(layers(list), input, classes, 4);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The counts of shared PyTorch definitions of these networks.
TEST(ReferenceNetworks, HaveTheirParameterCounts) {
  const auto count = [](const std::string& name, const Shape& input) {
    NetworkConfig config;
    config.name = name;
    return Network(expand_network(config, 10), input, 10, 2).parameter_count();
  };
  EXPECT_EQ(count("lenet5", {28, 28, 1}), 431080U);
  EXPECT_EQ(count("vgg_small", {32, 32, 3}), 2196810U);
  EXPECT_EQ(count("resnet20", {32, 32, 3}), 272474U);
  EXPECT_EQ(count("resnet18", {32, 32, 3}), 11173962U);
  const auto wide = [](const std::string& name, const Shape& input, const Target& target) {
    NetworkConfig config;
    config.name = name;
    return Network(expand_network(config, outputs_of(target)), input, target, 1).parameter_count();
  };
  EXPECT_EQ(wide("resnet50", {64, 64, 3}, 1000), 25557032U);     // torchvision's
  EXPECT_EQ(wide("mobilenet_v2", {64, 64, 3}, 1000), 3504872U);  // torchvision's
  LossConfig binary;
  binary.name = "binary_cross_entropy";
  EXPECT_EQ(wide("ffn3d", {8, 8, 8, 1}, {2, 512, binary}), 27U * 32 + 32 + 9 * (27 * 32 * 32 + 32) + 33);
  EXPECT_EQ(wide("unet2d", {16, 16, 1}, {2, 256, binary}), 1926433U);
  LossConfig squares;
  squares.name = "mean_squared_error";
  EXPECT_EQ(wide("cosmoflow", {128, 128, 128, 4}, {4, 1, squares}), 5597604U);
}

TEST(ReferenceNetworks, UnknownNameIsRefused) {
  NetworkConfig config;
  config.name = "lenet6";
  EXPECT_THROW(expand_network(config, 10), Error);
}

// The directional derivative along the gradient, by central differences of the loss in the parameters. In float, over a
// step that the loss resolves; the loss is smooth enough along it for a few digits.
TEST(Network, GradientIsTheSlopeOfTheLoss) {
  for (const std::string name : {"lenet5", "resnet20"}) {
    NetworkConfig config;
    config.name = name;
    const Shape input = name == "lenet5" ? Shape{28, 28, 1} : Shape{32, 32, 3};
    Network network(expand_network(config, 10), input, 10, 6);
    const Images images(6, input, 10);
    const ExecutionSpace exec;
    const Replica replica = network.make_replica(2);
    network.train(exec, replica, images.batch(6), 0);
    const std::vector<float> start = to_host(replica.parameters), gradient = to_host(replica.gradients);
    double norm = 0;
    for (const float g : gradient) norm += static_cast<double>(g) * g;
    const auto loss_at = [&](double step) {
      std::vector<float> moved = start;
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] += static_cast<float>(step * gradient[i] / std::sqrt(norm));
      Kokkos::deep_copy(replica.parameters, to_device<float>(moved));
      return network.train(exec, replica, images.batch(6), 0).loss / 6;
    };
    const double h = 2e-3;
    EXPECT_NEAR((loss_at(h) - loss_at(-h)) / (2 * h), std::sqrt(norm), 0.02 * std::sqrt(norm)) << name;
  }
}

TEST(Network, InitialWeightsFollowHeAndTheSeed) {
  NetworkConfig config;
  config.name = "vgg_small";
  const Network network(expand_network(config, 10), {32, 32, 3}, 10, 1);
  const std::vector<float> first = to_host(network.make_replica(7).parameters);
  EXPECT_EQ(first, to_host(network.make_replica(7).parameters));
  EXPECT_NE(first, to_host(network.make_replica(8).parameters));
  for (const NamedTensor& tensor : network.parameters()) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      sum += first[tensor.offset + i];
      squares += static_cast<double>(first[tensor.offset + i]) * first[tensor.offset + i];
    }
    if (tensor.name == "bias") {
      EXPECT_EQ(squares, 0);
      continue;
    }
    const double count = static_cast<double>(tensor.size());
    const double fan_in = count / static_cast<double>(tensor.extents.back());
    EXPECT_NEAR(squares / count * fan_in / 2, 1, 6 * std::sqrt(2 / count)) << tensor.layer;
    EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(2 / fan_in / count)) << tensor.layer;
  }
}

TEST(Network, SmallerBatchIsTheSameAsANetworkOfThatSize) {
  NetworkConfig config;
  config.name = "lenet5";
  const Shape input{28, 28, 1};
  const Images images(8, input, 10);
  Network large(expand_network(config, 10), input, 10, 8), small(expand_network(config, 10), input, 10, 3);
  const Replica a = large.make_replica(1), b = small.make_replica(1);
  const ExecutionSpace exec;
  large.train(exec, a, images.batch(8), 0);  // leaves its traces in the arena
  EXPECT_EQ(large.train(exec, a, images.batch(3), 0).loss, small.train(exec, b, images.batch(3), 0).loss);
  EXPECT_EQ(to_host(a.gradients), to_host(b.gradients));
}

TEST(Network, DropoutFollowsItsKeyAndRestsInEvaluation) {
  const Shape input{4, 4, 2};
  const Images images(4, input, 3);
  Network network(
      layers(
          R"({type="flatten"}, {type="dense", channels=32}, {type="relu"}, {type="dropout", probability=0.5}, {type="dense", channels=3})"),
      input, 3, 4);
  const Replica replica = network.make_replica(1);
  const ExecutionSpace exec;
  const double first = network.train(exec, replica, images.batch(4), 10).loss;
  EXPECT_EQ(first, network.train(exec, replica, images.batch(4), 10).loss);
  EXPECT_NE(first, network.train(exec, replica, images.batch(4), 11).loss);
  EXPECT_EQ(network.evaluate(exec, replica, images.batch(4)).loss,
            network.evaluate(exec, replica, images.batch(4)).loss);
}

TEST(Network, PredictsProbabilitiesOfWhatItEvaluates) {
  NetworkConfig config;
  config.name = "resnet20";
  const Shape input{32, 32, 3};
  const int size = 6, classes = 10;
  const Images images(size, input, classes);
  Network network(expand_network(config, classes), input, classes, size);
  const Replica replica = network.make_replica(1);
  const ExecutionSpace exec;
  network.train(exec, replica, images.batch(size), 0);  // the statistics are no longer 0 and 1
  std::vector<float> scores(static_cast<std::size_t>(size * classes)), again = scores;
  const double loss = network.evaluate(exec, replica, images.batch(size), {}, scores).loss;
  double sum = 0;
  for (int i = 0; i < size; ++i)
    sum -= std::log(static_cast<double>(
        scores[static_cast<std::size_t>(i * classes + images.labels[static_cast<std::size_t>(i)])]));
  EXPECT_NEAR(sum, loss, 1e-4);
  network.predict(exec, replica, {size, images.values.data()}, again);
  EXPECT_EQ(scores, again);
  for (int i = 0; i < size; ++i) {  // an image's scores do not depend on its batch
    std::vector<float> alone(static_cast<std::size_t>(classes));
    network.predict(exec, replica, {1, images.values.data() + i * input.values()}, alone);
    for (int k = 0; k < classes; ++k)
      EXPECT_NEAR(alone[static_cast<std::size_t>(k)], scores[static_cast<std::size_t>(i * classes + k)], 1e-5);
  }
  EXPECT_THROW(network.predict(exec, replica, {2, images.values.data()}, scores), Error);
}

TEST(Network, ArenaIsSmallerThanTheSumOfItsBuffers) {
  NetworkConfig config;
  config.name = "resnet20";
  const int batch = 8;
  const Network network(expand_network(config, 10), {32, 32, 3}, 10, batch);
  // Activations alone, each once: stem and nine blocks of five to seven tensors of 16 kB an image and channel count.
  const std::size_t every_value_and_gradient = 2UL * batch * sizeof(float) * (3 + 6 * 3) * 32 * 32 * 16;
  EXPECT_LT(network.arena_bytes(), every_value_and_gradient);
}

TEST(Network, ShapesThatDoNotChainAreNamed) {
  const Shape input{8, 8, 3};
  EXPECT_EQ(message_of(R"({type="conv", name="big", channels=4, kernel=9})", input, 4),
            "layer big (conv): a kernel of 9x9 does not fit in its input of 8x8x3 with this padding");
  EXPECT_EQ(message_of(R"({type="dense", name="head", channels=4})", input, 4),
            "layer head (dense): its input is 8x8x3, 1x1 expected; put a flatten or global_avg_pool layer before it");
  EXPECT_EQ(message_of(R"({type="conv", name="a", channels=4, kernel=1}, {type="conv", name="b", channels=5, kernel=1},
                          {type="add", name="sum", inputs=["a", "b"]})",
                       input, 4),
            "layer sum (add): its inputs a and b have shapes 8x8x4 and 8x8x5, equal ones expected");
  EXPECT_EQ(message_of(R"({type="conv", name="odd", channels=4, kernel=1, groups=2})", input, 4),
            "layer odd (conv): groups = 2 does not divide its input's 3 channels and its own 4");
  EXPECT_EQ(
      message_of(R"({type="flatten"}, {type="dense", name="head", channels=4})", input, 10),
      "network 't': the last layer, head, has outputs of shape 1x1x4, but the data have 10 classes (1x1x10 expected)");
  EXPECT_EQ(message_of(R"({type="max_pool", name="wide", kernel=9})", input, 10),
            "layer wide (max_pool): a window of 9x9 does not fit in its input of 8x8x3");
  EXPECT_EQ(message_of(R"({type="conv", name="c", channels=4, kernel=[3, 3, 3]})", input, 4),
            "layer c (conv): kernel has 3 numbers, expected one, or one for each of the 2 spatial axes of its input of "
            "8x8x3");
  EXPECT_EQ(
      message_of(R"({type="max_pool", name="p", kernel=2, stride=[2, 2]})", {8, 8, 8, 3}, 4),
      "layer p (max_pool): stride has 2 numbers, expected one, or one for each of the 3 spatial axes of its input "
      "of 8x8x8x3");
  EXPECT_EQ(
      message_of(
          R"({type="conv", name="lost", channels=4, kernel=1}, {type="global_avg_pool", inputs=["input"]}, {type="dense", channels=10})",
          input, 10),
      "layer lost: no layer takes its output");
}

/// The extents of the only convolution's weights, and the values that a dense layer over everything takes.
std::vector<std::vector<long>> weight_extents(const std::string& list, const Shape& input) {
  const Network network(layers(list), input, 2, 1);
  std::vector<std::vector<long>> extents;
  for (const NamedTensor& tensor : network.parameters()) {
    if (tensor.name == "weight") extents.push_back(tensor.extents);
  }
  return extents;
}

TEST(Network, OneNumberStandsForAllAxes) {
  using Extents = std::vector<std::vector<long>>;
  const std::string list = R"({type="conv", channels=3, kernel=3, stride=2, padding=1}, {type="max_pool", kernel=2},
                              {type="flatten"}, {type="dense", channels=2})";
  EXPECT_EQ(weight_extents(list, {9, 5}), (Extents{{3, 5, 3}, {4 * 3, 2}}));
  EXPECT_EQ(weight_extents(list, {9, 7, 5}), (Extents{{3, 3, 5, 3}, {4 * 3 * 3, 2}}));
  EXPECT_EQ(weight_extents(list, {11, 9, 7, 5}), (Extents{{3, 3, 3, 5, 3}, {5 * 4 * 3 * 3, 2}}));
  const std::string unlike = R"({type="conv", channels=3, kernel=[1, 2, 3], stride=[1, 2, 1], padding=[0, 0, 1]},
                                {type="avg_pool", kernel=[3, 2, 1], stride=[2, 1, 1]}, {type="flatten"},
                                {type="dense", channels=2})";
  EXPECT_EQ(weight_extents(unlike, {5, 6, 7, 1}), (Extents{{1, 2, 3, 1, 3}, {2 * 2 * 7 * 3, 2}}));
}

TEST(Network, OutputsThatDoNotFitTheLossAreNamed) {
  const auto message = [](const std::string& list, const Target& target) -> std::string {
    try {
      const Network network(layers(list), {4, 4, 3}, target, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  LossConfig binary, squared;
  binary.name = "binary_cross_entropy";
  squared.name = "mean_squared_error";
  const std::string wide = R"({type="conv", name="out", channels=2, kernel=1})",
                    narrow = R"({type="conv", name="out", channels=1, kernel=1})";
  EXPECT_EQ(message(wide, {2, 16}), "no error");
  EXPECT_EQ(message(wide, {2, 16, squared}), "no error");
  EXPECT_EQ(message(narrow, {2, 16, squared}), "no error");
  EXPECT_EQ(message(narrow, {2, 16, binary}), "no error");
  EXPECT_EQ(message(wide, {2, 16, binary}),
            "network 't': the last layer, out, has outputs of shape 4x4x2, but the data have 2 classes and one label "
            "per pixel (4x4x1 expected by binary_cross_entropy)");
  EXPECT_EQ(message(wide, {3, 16}),
            "network 't': the last layer, out, has outputs of shape 4x4x2, but the data have 3 classes and one label "
            "per pixel (4x4x3 expected)");
  EXPECT_EQ(
      message(wide, 2),
      "network 't': the last layer, out, has outputs of shape 4x4x2, but the data have 2 classes (1x1x2 expected)");
  EXPECT_EQ(message(narrow, {3, 16, binary}),
            "loss.name: binary_cross_entropy needs labels 0 and 1, but the data have 3 classes");
  EXPECT_EQ(message(wide, {2, 4}), "network 't': the data have 4 labels for an image of 4x4x3");
}

TEST(Network, NewLayersSayWhatDoesNotFit) {
  const Shape input{8, 8, 3};
  EXPECT_EQ(message_of(R"({type="group_norm", name="g", groups=2})", input, 3),
            "layer g (group_norm): groups = 2 does not divide its input's 3 channels");
  EXPECT_EQ(
      message_of(R"({type="conv_transpose", name="t", channels=2, kernel=2, stride=2, output_padding=2})", input, 2),
      "layer t (conv_transpose): output_padding 2x2 is not below the stride 2x2");
  EXPECT_EQ(message_of(R"({type="conv_transpose", name="t", channels=2, kernel=1, padding=4})", input, 2),
            "layer t (conv_transpose): its output would be 0 pixels long, from an input of 8x8x3 with padding 4x4");
  EXPECT_EQ(message_of(R"({type="conv_transpose", name="t", channels=4, kernel=1, groups=2})", input, 2),
            "layer t (conv_transpose): groups = 2 does not divide its input's 3 channels and its own 4");
  EXPECT_EQ(message_of(R"({type="max_pool", name="p", kernel=2}, {type="concat", name="c", inputs=["p", "input"]})",
                       input, 3),
            "layer c (concat): its inputs p and input have shapes 7x7x3 and 8x8x3, which differ in more than channels");
}

TEST(Network, BackwardTellsWhichGradientsAreComplete) {
  NetworkConfig config;
  config.name = "resnet20";  // residual additions: nodes without parameters, and inputs of several nodes
  Network network(expand_network(config, 10), {32, 32, 3}, 10, 2);
  const Replica replica = network.make_replica(1);
  const Images images(2, {32, 32, 3}, 10);
  const ExecutionSpace exec;
  std::vector<std::vector<float>> told;  // the tail that was complete, each time
  const auto copy = [&](std::size_t begin) {
    exec.fence();
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), replica.gradients);
    told.emplace_back(host.data() + begin, host.data() + host.extent(0));
  };
  network.train(exec, replica, images.batch(2), 0, copy);
  ASSERT_GT(told.size(), 20U);
  const std::vector<float> all = told.back();
  EXPECT_EQ(all.size(), network.parameter_count());
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (i > 0) {
      EXPECT_GT(told[i].size(), told[i - 1].size());
    }
    EXPECT_TRUE(std::equal(told[i].begin(), told[i].end(), all.end() - static_cast<std::ptrdiff_t>(told[i].size())));
  }
}

TEST(Network, BatchOutOfRangeIsRefused) {
  Network network(layers(R"({type="flatten"}, {type="dense", channels=3})"), {2, 2, 1}, 3, 2);
  const Images images(3, {2, 2, 1}, 3);
  EXPECT_THROW(network.evaluate(ExecutionSpace(), network.make_replica(1), images.batch(3)), Error);
}

// Batch-norm amplifies what rounding does to a gradient. How much, weights tell that are rounded before a step in full:
// bf16 rounds what they are multiplied with, and the gradients, too.
TEST(Network, GradientsInBf16DifferByItsRounding) {
  if (!computes_in(Precision::bf16)) GTEST_SKIP() << "not on this device";
  NetworkConfig config;
  config.name = "resnet20";
  constexpr int batch = 16;
  const Images images(batch, {32, 32, 3}, 10);
  const ExecutionSpace exec;
  Network in_full(expand_network(config, 10), {32, 32, 3}, 10, batch),
      in_bf16(expand_network(config, 10), {32, 32, 3}, 10, batch, Precision::bf16);
  const auto gradients = [&](Network& network, bool round_weights) {
    const Replica replica = network.make_replica(1);
    if (round_weights) {
      std::vector<float> weights = to_host(replica.parameters);
      for (float& weight : weights) weight = float_of_bf16(bf16_of(weight));
      Kokkos::deep_copy(replica.parameters, to_device(weights));
    }
    network.train(exec, replica, images.batch(batch), 0);
    return to_host(replica.gradients);
  };
  const std::vector<float> full = gradients(in_full, false), weights = gradients(in_full, true),
                           all = gradients(in_bf16, false);
  EXPECT_NE(full, all);
  for (const NamedTensor& tensor : in_full.parameters()) {
    const auto distance = [&](const std::vector<float>& values) {
      double sum = 0;
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
        sum += std::pow(static_cast<double>(values[i]) - full[i], 2);
      }
      return std::sqrt(sum);
    };
    EXPECT_LT(distance(all), 3 * distance(weights)) << tensor.layer << ' ' << tensor.name;
  }
}

}  // namespace
}  // namespace halograd::network_test
