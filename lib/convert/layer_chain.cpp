#include "convert/layer_chain.hpp"

#include <map>
#include <string>

#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Whether the order of features does not matter to the layer, or its tensors can be put into another.
bool passes_features(const std::string& type) {
  for (const char* name : {"dropout", "batch_norm", "add", "flatten"})
    if (type == name) return true;
  return is_activation(type);
}

}  // namespace

bool is_activation(const std::string& type) {
  for (const char* name : {"relu", "relu6", "leaky_relu", "sigmoid", "tanh", "gelu", "silu"})
    if (type == name) return true;
  return false;
}

std::vector<ChainLink> chain_layers(const NetworkConfig& config, const Shape& input) {
  std::map<std::string, int> value_of{{"input", 0}};
  std::vector<Shape> shapes{input};
  std::vector<long> folded{1};
  std::vector<ChainLink> links;
  for (const LayerConfig& layer : config.layers) {
    ChainLink link;
    link.config = layer;
    if (layer.inputs.empty()) link.inputs.push_back(static_cast<int>(shapes.size()) - 1);
    for (const std::string& name : layer.inputs) {
      const auto found = value_of.find(name);
      HALOGRAD_REQUIRE(found != value_of.end(), "layer ", layer.name, ": its input '", name, "' is no earlier layer");
      link.inputs.push_back(found->second);
    }
    for (const int& value : link.inputs) {
      link.input_shapes.push_back(shapes[static_cast<std::size_t>(value)]);
      const long pixels = folded[static_cast<std::size_t>(value)];
      HALOGRAD_REQUIRE(&value == &link.inputs.front() || pixels == link.folded_pixels, "layer ", layer.name,
                       ": its inputs have features in different orders, which PyTorch's layout cannot express");
      link.folded_pixels = pixels;
    }
    HALOGRAD_REQUIRE(link.folded_pixels == 1 || layer.type == "dense" || passes_features(layer.type), "layer ",
                     layer.name, " (", layer.type, "): cannot be converted behind a flatten");
    link.output = make_layer(layer, link.input_shapes)->output_shape();
    const Shape& first = link.input_shapes.front();
    folded.push_back(layer.type == "flatten" ? link.folded_pixels * first.pixels()
                     : layer.type == "dense" ? 1
                                             : link.folded_pixels);
    value_of[layer.name] = static_cast<int>(shapes.size());
    shapes.push_back(link.output);
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace halograd
