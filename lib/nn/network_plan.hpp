#pragma once

#include <cstddef>
#include <vector>

#include "nn/fuse.hpp"
#include "nn/layer.hpp"

namespace halograd {

/// What the plan needs to know of a node.
struct PlannedNode {
  const NodeConfig& config;
  LayerNeeds needs;
  bool wants_gradient = true;  ///< of its output
  std::size_t bytes = 0;       ///< of its output, and of the gradient of that
};

/// Where everything that a network computes lies in one arena, and who takes gradients back through fused ReLUs.
struct NetworkPlan {
  std::size_t bytes = 0;  ///< of the arena
  // By value: 0 is the images, i + 1 the output of node i. Several may share a place (in-place layers).
  std::vector<std::size_t> values, gradients;
  // By node.
  std::vector<std::size_t> saved;  ///< what the layer keeps from forward to backward
  std::vector<bool> masks_input;   ///< takes its first input's gradient back through the ReLU that made that input
  std::vector<bool> masks_itself;  ///< has a ReLU through which no other node does: that comes before its backward
};

/// Plans by liveness: node i of n runs forward at time i and backward at time 2 n - i, and a buffer lives from its
/// first writer to its last reader. `images`: bytes that the images take in the arena, 0 where they lie elsewhere.
/// Throws Error naming a layer whose output no other takes.
NetworkPlan plan_network(std::size_t images, std::vector<PlannedNode> nodes);

}  // namespace halograd
