#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/error.hpp"
#include "nn/network_node.hpp"
#include "nn/plan.hpp"
#include "support/memory.hpp"

/// Where a network's values, their gradients and what layers save lie in the arena. Node i runs forward at time i and
/// backward at time 2 n - i of n nodes.
namespace halograd {

/// The arena's buffers: the values, then their gradients, then what each layer saves from forward to backward.
struct Network::Lives {
  std::vector<Lifetime> buffers;
  std::vector<int> place;  ///< of a value or gradient: the buffer whose place it takes, often its own

  Lives(int values, int nodes) : buffers(static_cast<std::size_t>(2L * values + nodes)), place(2L * values) {
    std::iota(place.begin(), place.end(), 0);
  }
  /// Gives a buffer its life, or adds it to that of the buffer whose place it takes.
  void add(int buffer, const Lifetime& own) {
    Lifetime& shared = buffers[place[buffer]];
    if (place[buffer] == buffer) shared = own;
    shared.birth = std::min(shared.birth, own.birth);
    shared.death = std::max(shared.death, own.death);
  }
};

Network::Consumers Network::consumers() const {
  Consumers consumers(nodes_.size() + 1);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const int value : nodes_[i]->config.inputs) consumers[value].push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i + 1 < nodes_.size(); ++i) {
    HALOGRAD_REQUIRE(!consumers[i + 1].empty(), "layer ", nodes_[i]->config.output, ": no layer takes its output");
  }
  return consumers;
}

/// Decides who takes the gradient of a fused ReLU's output back through it: the node that writes to it last, where it
/// can do so as it stores.
void Network::place_masks(const Consumers& consumers) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]->config.epilogue.relu) continue;
    const int value = static_cast<int>(i) + 1;
    nodes_[i]->mask_gradient = true;
    if (!consumers[value].empty()) {
      Node& last = *nodes_[consumers[value].front()];
      const bool able = last.needs.mask == Mask::sum || (last.needs.mask == Mask::own && consumers[value].size() == 1);
      if (able && last.config.inputs[0] == value &&
          std::count(last.config.inputs.begin(), last.config.inputs.end(), value) == 1) {
        last.call.mask = true;
        nodes_[i]->mask_gradient = false;
      }
    }
    if (nodes_[i]->mask_gradient) nodes_[i]->needs.backward_reads_output = true;
  }
}

std::size_t Network::value_bytes(int value) const {
  const Shape& shape = value == 0 ? input_shape_ : nodes_[value - 1]->shape;
  return static_cast<std::size_t>(shape.values() * largest_batch_) * sizeof(float);
}

/// From its producer to the last node that reads it, forward or backward.
Lifetime Network::life_of_value(int value, const std::vector<int>& consumers) const {
  const int count = static_cast<int>(nodes_.size()), producer = value - 1;
  Lifetime life{value == 0 ? 0 : value_bytes(value), producer, value == count ? count : producer};
  for (const int consumer : consumers) {
    const Node& node = *nodes_[consumer];
    const bool overwritten = node.needs.in_place && node.config.inputs[node.needs.in_place_input] == value;
    const bool read_again = node.needs.backward_reads_input && !overwritten;
    life.death = std::max(life.death, read_again ? 2 * count - consumer : consumer);
  }
  if (producer >= 0 && nodes_[producer]->needs.backward_reads_output) {
    life.death = std::max(life.death, 2 * count - producer);
  }
  return life;
}

/// From the first node that writes to it, going backwards, to its producer.
Lifetime Network::life_of_gradient(int value, const std::vector<int>& consumers) const {
  const int count = static_cast<int>(nodes_.size()), producer = value - 1;
  return {value == 0 ? 0 : value_bytes(value), value == count ? count : 2 * count - consumers.back(),
          2 * count - producer};
}

/// The output of a node may take the place of an input that nobody else reads; that input's gradient the output's,
/// unless another node has put something there before.
void Network::share_places(int value, const Consumers& consumers, Lives& lives) const {
  if (value == 0) return;
  const Node& node = *nodes_[value - 1];
  const int from = node.needs.in_place ? node.config.inputs[node.needs.in_place_input] : 0;
  if (from == 0 || value_bytes(from) != value_bytes(value)) return;
  if (std::count(node.config.inputs.begin(), node.config.inputs.end(), from) != 1) return;
  const int values = static_cast<int>(consumers.size());
  if (consumers[from].size() == 1 && !nodes_[from - 1]->needs.backward_reads_output) {
    lives.place[value] = lives.place[from];
  }
  if (consumers[from].back() == value - 1) lives.place[values + value] = lives.place[values + from];
}

void Network::place_buffers() {
  const int count = static_cast<int>(nodes_.size()), values = count + 1;
  const Consumers consumers = this->consumers();
  place_masks(consumers);

  Lives lives(values, count);
  for (int value = 0; value < values; ++value) {
    share_places(value, consumers, lives);
    lives.add(value, life_of_value(value, consumers[value]));
    lives.add(values + value, life_of_gradient(value, consumers[value]));
  }
  for (int i = 0; i < count; ++i) {
    lives.buffers[2 * values + i] = {nodes_[i]->needs.saved_bytes, i, 2 * count - i};
  }
  std::size_t workspace_bytes = 0;
  for (const auto& node : nodes_) workspace_bytes = std::max(workspace_bytes, node->needs.workspace_bytes);

  const ArenaPlan plan = plan_arena(lives.buffers);
  require_kernel_memory(static_cast<double>(plan.bytes + workspace_bytes),
                        "activations and gradients of " + std::to_string(largest_batch_) + " images");
  arena_ = Buffer<std::byte>(Kokkos::view_alloc(std::string("halograd::arena"), Kokkos::WithoutInitializing),
                             plan.bytes + workspace_bytes);
  if (runs_on_host) prefer_large_pages(arena_.data(), arena_.size());
  Kokkos::deep_copy(arena_, std::byte{0});
  workspace_ = slice(arena_, plan.bytes, workspace_bytes);
  for (int value = 0; value < values; ++value) {
    value_offset_.push_back(plan.offsets[lives.place[value]]);
    gradient_offset_.push_back(plan.offsets[lives.place[values + value]]);
  }
  for (int i = 0; i < count; ++i) nodes_[i]->saved_offset = plan.offsets[2 * values + i];
  prepare_calls();
}

/// Sizes the lists of each node's call, so that a step allocates nothing.
void Network::prepare_calls() {
  std::vector<bool> seen(nodes_.size() + 1, false);
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = *nodes_[i];
    for (const int value : node.config.inputs) {
      node.first_consumer.push_back(!seen[value]);
      seen[value] = true;
    }
    const std::size_t parameters = node.layer->parameters().size();
    node.call.inputs.resize(node.config.inputs.size());
    node.call.input_gradients.resize(node.config.inputs.size());
    node.call.accumulate.resize(node.config.inputs.size());
    node.call.parameters.resize(parameters);
    node.call.parameter_gradients.resize(parameters);
    node.call.statistics.resize(node.layer->statistics().size());
    node.call.saved = slice(arena_, node.saved_offset, node.needs.saved_bytes);
    node.call.workspace = workspace_;
  }
}

}  // namespace halograd
