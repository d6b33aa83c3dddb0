#pragma once

#include <memory>
#include <vector>

#include "nn/fuse.hpp"
#include "nn/network.hpp"

namespace halograd {

/// A node of a network as the network keeps it.
struct Network::Node {
  NodeConfig config;
  std::unique_ptr<Layer> layer;
  Shape shape;
  std::vector<bool> first_consumer;  ///< whether this node writes an input's gradient first, going backwards
  int first_parameter = 0, first_statistic = 0;
  std::size_t saved_offset = 0;
  bool mask_gradient =
      false;  ///< no consumer takes the gradient back through this node's ReLU: it is done before backward
  LayerNeeds needs;
  LayerCall call;  ///< its lists are sized once, so that a step allocates nothing
};

}  // namespace halograd
