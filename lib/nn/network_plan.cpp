#include "nn/network_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "nn/arena.hpp"

namespace halograd {

namespace {

class Planner {
 public:
  Planner(std::size_t images, std::vector<PlannedNode> nodes)
      : images_(images),
        nodes_(std::move(nodes)),
        count_(static_cast<int>(nodes_.size())),
        values_(count_ + 1),
        consumers_(values_),
        buffers_(2L * values_ + count_),
        place_(2L * values_),
        offset_(2L * values_),
        used_(2L * values_) {
    for (int i = 0; i < count_; ++i) {
      for (const int value : nodes_[i].config.inputs) consumers_[value].push_back(i);
    }
    for (int i = 0; i + 1 < count_; ++i) {
      HALOGRAD_REQUIRE(!consumers_[i + 1].empty(), "layer ", nodes_[i].config.output, ": no layer takes its output");
    }
    std::iota(place_.begin(), place_.end(), 0);
  }

  NetworkPlan plan() {
    NetworkPlan plan;
    place_masks(plan);
    place_in_outputs();
    for (int value = 0; value < values_; ++value) {
      share_places(value);
      add(value, life_of_value(value));
      add(values_ + value, life_of_gradient(value));
    }
    for (int i = 0; i < count_; ++i) buffers_[2 * values_ + i] = {nodes_[i].needs.saved_bytes, i, 2 * count_ - i};
    const ArenaPlan arena = plan_arena(buffers_);
    plan.bytes = arena.bytes;
    for (int value = 0; value < values_; ++value) {
      plan.values.push_back(arena.offsets[place_[value]] + offset_[value]);
      plan.gradients.push_back(arena.offsets[place_[values_ + value]] + offset_[values_ + value]);
    }
    plan.saved.assign(arena.offsets.begin() + 2L * values_, arena.offsets.end());
    return plan;
  }

 private:
  [[nodiscard]] bool wants_gradient(int value) const { return value != 0 && nodes_[value - 1].wants_gradient; }
  [[nodiscard]] std::size_t bytes(int value) const { return value == 0 ? images_ : nodes_[value - 1].bytes; }

  /// Decides who takes the gradient of a fused ReLU's output back through it: the node that writes to it last, where it
  /// can do so as it stores.
  void place_masks(NetworkPlan& plan) {
    plan.masks_input.assign(count_, false);
    plan.masks_itself.assign(count_, false);
    for (int i = 0; i < count_; ++i) {
      if (!nodes_[i].config.epilogue.relu || place_mask(i + 1, plan)) continue;
      plan.masks_itself[i] = true;
      nodes_[i].needs.backward_reads_output = true;
    }
  }

  /// Whether one of the nodes that read a value now masks its gradient.
  bool place_mask(int value, NetworkPlan& plan) const {
    if (consumers_[value].empty()) return false;
    const int index = consumers_[value].front();
    const PlannedNode& last = nodes_[index];
    const std::vector<int>& inputs = last.config.inputs;
    const bool alone = consumers_[value].size() == 1;
    if (alone && last.needs.hands_on && place_mask(index + 1, plan)) return true;
    const bool able = last.needs.mask == Mask::sum || (last.needs.mask == Mask::own && alone);
    if (!able || inputs[0] != value || std::count(inputs.begin(), inputs.end(), value) != 1) return false;
    plan.masks_input[index] = true;
    return true;
  }

  /// From its producer to the last node that reads it, forward or backward.
  [[nodiscard]] Lifetime life_of_value(int value) const {
    const int producer = value - 1;
    Lifetime life{bytes(value), producer, value == count_ ? count_ : producer};
    for (const int consumer : consumers_[value]) {
      const PlannedNode& node = nodes_[consumer];
      const std::vector<int>& inputs = node.config.inputs;
      const bool once = std::count(inputs.begin(), inputs.end(), value) == 1;  // else another input is still read
      const bool overwritten = once && node.needs.in_place && inputs[node.needs.in_place_input] == value;
      const bool read_again = node.needs.backward_reads_input && !overwritten;
      life.death = std::max(life.death, read_again ? 2 * count_ - consumer : consumer);
    }
    if (producer >= 0 && nodes_[producer].needs.backward_reads_output) {
      life.death = std::max(life.death, 2 * count_ - producer);
    }
    return life;
  }

  /// From the first node that writes to it, going backwards, to its producer.
  [[nodiscard]] Lifetime life_of_gradient(int value) const {
    const int producer = value - 1;
    return {wants_gradient(value) ? bytes(value) : 0, value == count_ ? count_ : 2 * count_ - consumers_[value].back(),
            2 * count_ - producer};
  }

  /// The output of a node may take the place of an input that nobody else reads; that input's gradient the output's,
  /// unless another node has put something there before.
  void share_places(int value) {
    if (value == 0) return;
    const PlannedNode& node = nodes_[value - 1];
    const std::vector<int>& inputs = node.config.inputs;
    const bool in_place = node.needs.in_place;
    const int from = in_place ? inputs[node.needs.in_place_input] : node.needs.gradient_in_place ? inputs[0] : 0;
    if (from == 0 || bytes(from) != bytes(value)) return;
    if (place_[value] != value || nodes_[from - 1].needs.input_in_output >= 0) return;
    if (std::count(inputs.begin(), inputs.end(), from) != 1) return;
    if (in_place && consumers_[from].size() == 1 && !nodes_[from - 1].needs.backward_reads_output) {
      place_[value] = place_[from];
    }
    if (consumers_[from].back() == value - 1 && wants_gradient(from)) place_[values_ + value] = place_[values_ + from];
  }

  /// The input of a halo may lie in its output, and so is not copied there; its gradient in the output's, where no
  /// other node has put something there before.
  void place_in_outputs() {
    for (int value = 1; value < values_; ++value) {
      const PlannedNode& node = nodes_[value - 1];
      const int from = node.needs.input_in_output >= 0 ? node.config.inputs[0] : 0;
      if (from == 0 || place_[from] != from || nodes_[from - 1].needs.input_in_output >= 0) continue;
      const auto offset = static_cast<std::size_t>(node.needs.input_in_output);
      if (offset % arena_alignment != 0) continue;
      place_[from] = value;
      offset_[from] = offset;
      if (consumers_[from].back() != value - 1 || !wants_gradient(from)) continue;
      place_[values_ + from] = values_ + value;
      offset_[values_ + from] = offset;
    }
  }

  /// Gives a buffer its life, or adds it to that of the buffer whose place it takes.
  void add(int buffer, const Lifetime& own) {
    Lifetime& shared = buffers_[place_[buffer]];
    if (place_[buffer] == buffer) shared.bytes = own.bytes;
    const bool first = !used_[place_[buffer]];
    shared.birth = first ? own.birth : std::min(shared.birth, own.birth);
    shared.death = first ? own.death : std::max(shared.death, own.death);
    used_[place_[buffer]] = true;
  }

  std::size_t images_;
  std::vector<PlannedNode> nodes_;
  int count_, values_;
  std::vector<std::vector<int>> consumers_;  ///< of each value, in order
  // The arena's buffers: the values, then their gradients, then what each layer saves from forward to backward.
  std::vector<Lifetime> buffers_;
  std::vector<int> place_;           ///< of a value or gradient: the buffer whose place it takes, often its own
  std::vector<std::size_t> offset_;  ///< where it begins there
  std::vector<bool> used_;           ///< whether a buffer has got a life
};

}  // namespace

NetworkPlan plan_network(std::size_t images, std::vector<PlannedNode> nodes) {
  return Planner(images, std::move(nodes)).plan();
}

}  // namespace halograd
