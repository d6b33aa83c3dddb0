#include "nn/fuse.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/error.hpp"
#include "nn/network.hpp"
#include "nn/reference_networks.hpp"
#include "run/read.hpp"
#include "tests/kernels/buffers.hpp"

namespace halograd::fuse_test {
namespace {

std::vector<LayerConfig> layers(const std::string& list) {
  return parse_config("name = \"t\"\n[data]\nformat = \"synthetic\"\n[network]\nname = \"t\"\nlayer = [" + list + "]\n",
                      "test")
      .network.layers;
}

/// "name(types) <- inputs", a line a node.
std::string text(const std::vector<NodeConfig>& nodes) {
  std::string result;
  for (const NodeConfig& node : nodes) {
    result += node.output + " (" + node.types + ") <-";
    for (const int value : node.inputs) result += " " + (value == 0 ? "input" : nodes[value - 1].output);
    result += "\n";
  }
  return result;
}

TEST(Fuse, ReluGoesIntoTheLayerBeforeIt) {
  const auto list = layers(R"({type="conv", name="c", channels=4, kernel=3}, {type="relu", name="r"},
                              {type="flatten", name="f"}, {type="dense", name="d", channels=3})");
  EXPECT_EQ(text(make_nodes(list, true)), "r (conv + relu) <- input\nf (flatten) <- r\nd (dense) <- f\n");
  EXPECT_EQ(text(make_nodes(list, false)), "c (conv) <- input\nr (relu) <- c\nf (flatten) <- r\nd (dense) <- f\n");
}

TEST(Fuse, AddGoesIntoTheLaterOperandWhereThatIsABatchNorm) {
  const auto list = layers(R"({type="conv", name="c", channels=4, kernel=1}, {type="batch_norm", name="n"},
      {type="conv", name="s", channels=4, kernel=1, inputs=["input"]}, {type="batch_norm", name="m"},
      {type="add", name="a", inputs=["n", "m"]}, {type="relu", name="r"}, {type="add", name="b", inputs=["r", "input"]})");
  EXPECT_EQ(text(make_nodes(list, true)),
            "c (conv) <- input\nn (batch_norm) <- c\ns (conv) <- input\nr (batch_norm + add + relu) <- s n\n"
            "b (add) <- r input\n");
}

TEST(Fuse, Relu6GoesIntoABatchNormThatNothingIsAddedTo) {
  const auto list = layers(R"({type="conv", name="c", channels=2, kernel=1}, {type="relu6", name="r"},
      {type="batch_norm", name="n"}, {type="relu6", name="s"}, {type="batch_norm", name="m"},
      {type="add", name="a", inputs=["m", "s"]}, {type="relu6", name="t"})");
  EXPECT_EQ(
      text(make_nodes(list, true)),
      "c (conv) <- input\nr (relu6) <- c\ns (batch_norm + relu6) <- r\na (batch_norm + add) <- s s\nt (relu6) <- a\n");
}

TEST(Fuse, WhatAnotherLayerReadsStaysAsItIs) {
  const auto list = layers(R"({type="conv", name="c", channels=4, kernel=1}, {type="relu", name="r"},
      {type="batch_norm", name="n", inputs=["c"]}, {type="add", name="a", inputs=["n", "r"]},
      {type="add", name="b", inputs=["n", "a"]}, {type="relu", name="q"}, {type="relu", name="q2"})");
  EXPECT_EQ(text(make_nodes(list, true)), text(make_nodes(list, false)));
}

TEST(Fuse, ANameThatStandsTwiceIsRefused) {
  auto list = layers(R"({type="flatten", name="a"}, {type="dense", name="b", channels=3})");
  list[1].name = "a";
  EXPECT_THROW(make_nodes(list, true), Error);
}

struct Batch {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
  Batch(int count, const Shape& shape) : values(shape.values() * static_cast<std::size_t>(count)) {
    std::mt19937 generator(4);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(generator);
    for (int i = 0; i < count; ++i) labels.push_back(i % 3);
  }
};

void multiply_scales(const Network& network, const Replica& replica, float factor) {
  const auto values = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), replica.parameters);
  for (const NamedTensor& tensor : network.parameters()) {
    for (std::size_t i = 0; tensor.name == "scale" && i < tensor.size(); ++i) values(tensor.offset + i) *= factor;
  }
  Kokkos::deep_copy(replica.parameters, values);
}

/// Loss, gradients and statistics of one training step, and the loss of an evaluation. Normalised values are `scale`
/// times as large as at first.
void expect_same(const NetworkConfig& config, const Shape& input, int classes, float scale = 1) {
  SCOPED_TRACE(config.name);
  constexpr int batch = 3;
  Network fused(config, input, classes, batch), plain(config, input, classes, batch, Precision::full, false);
  const Replica a = fused.make_replica(3), b = plain.make_replica(3);
  ASSERT_EQ(to_host(a.parameters), to_host(b.parameters));
  multiply_scales(fused, a, scale);
  multiply_scales(plain, b, scale);
  const Batch images(batch, input);
  const HostBatch host{batch, images.values.data(), images.labels.data()};
  const ExecutionSpace exec;
  for (int step = 0; step < 2; ++step) {  // the second finds the traces of the first in the arena
    EXPECT_EQ(fused.train(exec, a, host, 7).loss, plain.train(exec, b, host, 7).loss);
    EXPECT_EQ(to_host(a.statistics), to_host(b.statistics));
    const auto found = to_host(a.gradients), expected = to_host(b.gradients);
    double largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6 * largest) << i;
  }
  EXPECT_EQ(fused.evaluate(exec, a, host).loss, plain.evaluate(exec, b, host).loss);
  EXPECT_LE(fused.arena_bytes(), plain.arena_bytes());
}

TEST(Fuse, ReferenceNetworksComputeTheSame) {
  for (const char* name : {"lenet5", "resnet20"}) {
    NetworkConfig config;
    config.name = name;
    expect_same(expand_network(config, 10), config.name == "lenet5" ? Shape{28, 28, 1} : Shape{32, 32, 3}, 10);
  }
}

TEST(Fuse, Relu6ComputesTheSame) {
  NetworkConfig config;
  config.name = "relu6";
  config.layers = layers(
      R"({type="conv", name="c", channels=4, kernel=1}, {type="batch_norm"}, {type="relu6"}, {type="conv", channels=4, kernel=3},
         {type="batch_norm"}, {type="relu6", name="r"}, {type="batch_norm", name="m"}, {type="add", name="a", inputs=["m", "r"]},
         {type="batch_norm"}, {type="relu6"}, {type="global_avg_pool"}, {type="dense", channels=3})");
  expect_same(config, Shape{6, 6, 2}, 3, 6.0F);
}

// A ReLU that several layers read, that one reads as an addend, that a batch-norm, a pooling or a dropout reads, that
// stands last.
TEST(Fuse, OddNetworksComputeTheSame) {
  const char* lists[] = {
      R"({type="conv", name="c", channels=4, kernel=3, padding=1}, {type="relu", name="r"}, {type="batch_norm", name="n"},
         {type="max_pool", name="p", kernel=2, stride=2, inputs=["n"]}, {type="max_pool", name="q", kernel=2, stride=2, inputs=["r"]},
         {type="add", name="a", inputs=["p", "q"]}, {type="global_avg_pool"}, {type="dense", channels=3})",
      R"({type="conv", name="c", channels=4, kernel=3, padding=1}, {type="relu", name="r"},
         {type="avg_pool", kernel=3, stride=2}, {type="batch_norm", name="n"}, {type="relu"}, {type="flatten"},
         {type="dense", channels=12}, {type="relu"}, {type="dropout", probability=0.5}, {type="dense", channels=3}, {type="relu"})",
      R"({type="conv", name="c", channels=4, kernel=1}, {type="batch_norm", name="n"}, {type="relu", name="r"},
         {type="batch_norm", name="m"}, {type="add", name="a", inputs=["m", "r"]}, {type="relu", name="s"},
         {type="conv", name="d", channels=4, kernel=1}, {type="batch_norm", name="o"}, {type="add", name="b", inputs=["r", "o"]},
         {type="add", name="e", inputs=["b", "s"]}, {type="max_pool", kernel=3, stride=1}, {type="flatten"}, {type="dense", channels=3})",
      R"({type="conv", name="c", channels=4, kernel=3, padding=1}, {type="batch_norm", name="n"},
         {type="add", name="a", inputs=["n", "c"]}, {type="conv", channels=4, kernel=3, padding=1},
         {type="conv", channels=4, kernel=3, padding=1}, {type="global_avg_pool"}, {type="dense", channels=3})",
      R"({type="batch_norm", name="n"}, {type="add", name="a", inputs=["n", "input"]}, {type="relu"},
         {type="max_pool", kernel=2, stride=2}, {type="flatten"}, {type="dense", channels=3})"};
  for (const char* list : lists) {
    NetworkConfig config;
    config.name = list;
    config.layers = layers(list);
    expect_same(config, Shape{6, 6, 2}, 3);
  }
}

}  // namespace
}  // namespace halograd::fuse_test
