#pragma once

#include <string>
#include <vector>

#include "convert/layer_chain.hpp"
#include "convert/onnx_graph.hpp"

namespace halograd {

/// A layer on its way into an ONNX graph.
struct OnnxLayer {
  const ChainLink& link;
  std::vector<std::string> inputs;  ///< names of the values that it reads
  bool flat = false;                ///< whether ONNX's values here have no spatial axes

  [[nodiscard]] const LayerConfig& config() const { return link.config; }
  [[nodiscard]] const std::string& name() const { return link.config.name; }
  [[nodiscard]] const Shape& shape() const { return link.input_shapes.front(); }
};

/// The extents of the axes that a shape has.
std::vector<std::int64_t> spatial_extents(const Shape& shape);

/// Adds the operators of a layer in inference; the last one's output is called as the layer. Throws Error naming the
/// layer where its type has no row in the table of onnx_layers.cpp.
void add_layer(OnnxGraph& graph, const OnnxLayer& layer);

}  // namespace halograd
