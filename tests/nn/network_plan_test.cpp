#include "nn/network_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"

namespace halograd::network_plan_test {
namespace {

/// Nodes whose configurations live as long.
struct Graph {
  std::size_t images = 0;
  std::deque<NodeConfig> configs;
  std::vector<PlannedNode> nodes;

  [[nodiscard]] std::size_t bytes(int value) const { return value == 0 ? images : nodes[value - 1].bytes; }
  [[nodiscard]] bool wants_gradient(int value) const { return value != 0 && nodes[value - 1].wants_gradient; }
  void add(std::vector<int> inputs, const LayerNeeds& needs, std::size_t bytes, bool relu = false) {
    NodeConfig& config = configs.emplace_back();
    config.output = "layer " + std::to_string(nodes.size());
    config.inputs = std::move(inputs);
    config.epilogue.relu = relu;
    nodes.push_back({config, needs, true, bytes});
  }
};

/// Each node reads the one before it and perhaps an earlier one, with every need that layers have.
Graph random_graph(unsigned seed) {
  std::mt19937 generator(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); };
  const auto chance = [&](int of) { return draw(1, of) == 1; };
  Graph graph;
  graph.images = chance(2) ? 0 : 640;
  const int count = draw(1, 12);
  for (int i = 0; i < count; ++i) {
    std::vector<int> inputs{i};
    if (chance(3)) inputs.insert(inputs.begin() + draw(0, 1), draw(std::max(0, i - 4), i));
    const std::size_t first = std::max<std::size_t>(graph.bytes(inputs[0]), 64);
    LayerNeeds needs;
    needs.backward_reads_input = chance(2);
    needs.backward_reads_output = chance(3);
    needs.in_place = chance(2);
    needs.in_place_input = draw(0, static_cast<int>(inputs.size()) - 1);
    needs.gradient_in_place = chance(2);
    needs.mask = std::vector{Mask::none, Mask::own, Mask::sum}[draw(0, 2)];
    needs.hands_on = chance(6);
    needs.saved_bytes = chance(3) ? 64U * draw(1, 5) : 0;
    std::size_t bytes = chance(2) ? first : 64U * draw(1, 10);
    if (inputs.size() == 1 && chance(4)) {
      needs = {};
      needs.backward_reads_input = false;
      needs.input_in_output = 32L * draw(0, 4);
      needs.mask = Mask::sum;
      bytes = first + needs.input_in_output + 64U * draw(0, 2);
    }
    graph.add(inputs, needs, bytes, !needs.hands_on && chance(3));
    bool learns = chance(2);
    for (const int input : inputs) learns = learns || graph.wants_gradient(input);
    graph.nodes.back().wants_gradient = learns;
  }
  return graph;
}

/// A step on a plan, with names in the arena for what lies there: whatever a node reads must still be there.
class Step {
 public:
  Step(const Graph& graph, const NetworkPlan& plan) : graph_(graph), plan_(plan), arena_(plan.bytes) {}

  void run() {
    const int count = static_cast<int>(graph_.nodes.size());
    put(plan_.values[0], graph_.images, value(0));
    for (int i = 0; i < count; ++i) forward(i);
    expect(plan_.values[count], graph_.bytes(count), value(count), "the loss");
    if (graph_.wants_gradient(count)) put(plan_.gradients[count], graph_.bytes(count), gradient(count));
    written_.assign(count + 1, false);
    for (int i = count; i-- > 0;) {
      if (graph_.nodes[i].wants_gradient) backward(i);
    }
  }

 private:
  static std::string value(int index) { return "value " + std::to_string(index); }
  static std::string gradient(int index) { return "gradient " + std::to_string(index); }
  static std::string saved(int index) { return "saved " + std::to_string(index); }

  void put(std::size_t offset, std::size_t bytes, const std::string& name, const std::set<std::string>& beside = {}) {
    ASSERT_LE(offset + bytes, arena_.size());
    for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
      std::set<std::string> names{name};
      for (const std::string& other : beside) {
        if (arena_[byte].contains(other)) names.insert(other);
      }
      arena_[byte] = names;
    }
  }
  void expect(std::size_t offset, std::size_t bytes, const std::string& name, const std::string& who) const {
    for (std::size_t byte = offset; byte < offset + bytes; ++byte) {
      ASSERT_TRUE(arena_[byte].contains(name))
          << who << " reads " << name << ", of which byte " << byte - offset << " is gone";
    }
  }

  void forward(int i) {
    const PlannedNode& node = graph_.nodes[i];
    const std::string who = "forward " + std::to_string(i);
    for (const int input : node.config.inputs) expect(plan_.values[input], graph_.bytes(input), value(input), who);
    std::set<std::string> beside;
    if (node.needs.input_in_output >= 0) beside.insert(value(node.config.inputs[0]));  // holds the same values there
    put(plan_.values[i + 1], node.bytes, value(i + 1), beside);
    put(plan_.saved[i], node.needs.saved_bytes, saved(i));
  }

  void backward(int i) {
    const PlannedNode& node = graph_.nodes[i];
    const std::vector<int>& inputs = node.config.inputs;
    const std::string who = "backward " + std::to_string(i);
    expect(plan_.gradients[i + 1], node.bytes, gradient(i + 1), who);
    expect(plan_.saved[i], node.needs.saved_bytes, saved(i), who);
    if (node.needs.backward_reads_output || plan_.masks_itself[i]) {
      expect(plan_.values[i + 1], node.bytes, value(i + 1), who);
    }
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const bool gone = node.needs.in_place && static_cast<int>(j) == node.needs.in_place_input;
      if (node.needs.backward_reads_input && !gone) {
        expect(plan_.values[inputs[j]], graph_.bytes(inputs[j]), value(inputs[j]), who);
      }
    }
    std::set<std::string> beside;
    if (node.needs.input_in_output >= 0) beside.insert(gradient(i + 1));
    for (const int input : std::set<int>(inputs.begin(), inputs.end())) {
      if (!graph_.wants_gradient(input)) continue;
      if (written_[input]) expect(plan_.gradients[input], graph_.bytes(input), gradient(input), who);
      written_[input] = true;
      put(plan_.gradients[input], graph_.bytes(input), gradient(input), beside);
    }
  }

  const Graph& graph_;
  const NetworkPlan& plan_;
  std::vector<std::set<std::string>> arena_;
  std::vector<bool> written_;  ///< of each value, whether its gradient has been begun
};

TEST(NetworkPlan, WhatAStepReadsIsThere) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed);
    const NetworkPlan plan = plan_network(graph.images, graph.nodes);
    Step(graph, plan).run();
    if (HasFatalFailure()) return;
  }
}

/// Each ReLU is taken back once: by its own node or by one that reads its output first.
TEST(NetworkPlan, EachReluIsTakenBackOnce) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = random_graph(seed);
    const NetworkPlan plan = plan_network(graph.images, graph.nodes);
    std::size_t relus = 0, taken = 0;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      relus += graph.nodes[i].config.epilogue.relu;
      taken += plan.masks_itself[i] + plan.masks_input[i];
      EXPECT_FALSE(plan.masks_input[i] && graph.nodes[i].needs.mask == Mask::none);
      EXPECT_FALSE(plan.masks_itself[i] && !graph.nodes[i].config.epilogue.relu);
    }
    EXPECT_EQ(taken, relus);
  }
}

TEST(NetworkPlan, LayersInPlaceTakeNoMemory) {
  Graph graph;
  graph.add({0}, {}, 640);
  LayerNeeds in_place;
  in_place.in_place = true;
  in_place.backward_reads_input = false;
  for (int i = 1; i < 5; ++i) graph.add({i}, in_place, 640);
  EXPECT_EQ(plan_network(0, graph.nodes).bytes, 2 * 640U);  // the value and its gradient
}

TEST(NetworkPlan, AGradientInPlaceLiesWhereThatOfTheOutputLay) {
  Graph graph;
  graph.add({0}, {}, 640);
  LayerNeeds needs;
  needs.gradient_in_place = true;
  for (int i = 1; i < 3; ++i) graph.add({i}, needs, 640);
  const NetworkPlan plan = plan_network(0, graph.nodes);
  EXPECT_EQ(plan.gradients[3], plan.gradients[2]);
  EXPECT_EQ(plan.gradients[2], plan.gradients[1]);
  EXPECT_NE(plan.values[3], plan.values[2]);
  EXPECT_NE(plan.values[2], plan.values[1]);
}

TEST(NetworkPlan, AnOutputThatNobodyTakesIsAnError) {
  Graph graph;
  graph.add({0}, {}, 64);
  graph.add({0}, {}, 64);
  try {
    plan_network(0, graph.nodes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "layer layer 0: no layer takes its output");
  }
}

}  // namespace
}  // namespace halograd::network_plan_test
