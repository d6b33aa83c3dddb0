#pragma once

#include <vector>

#include "config/network_config.hpp"
#include "nn/layer.hpp"

namespace halograd {

/// A layer with the shapes around it. Values are numbered: 0 the images, i + 1 the output of layer i.
struct ChainLink {
  LayerConfig config;
  std::vector<int> inputs;          ///< values
  std::vector<Shape> input_shapes;  ///< one an input
  Shape output;
  /// Pixels that a flatten has folded into the features that come in, channels fastest; 1: none.
  long folded_pixels = 1;
};

/// The layers of a network in their order, for those who write it in another form. Throws Error where shapes do not
/// chain, or a layer that reads pixels comes behind a flatten (Features).
std::vector<ChainLink> chain_layers(const NetworkConfig& config, const Shape& input);

}  // namespace halograd
