#include "convert/layer_chain.hpp"

#include "kernels/error.hpp"
#include "nn/layer_inputs.hpp"

namespace halograd {

std::vector<ChainLink> chain_layers(const NetworkConfig& config, const Shape& input) {
  const std::vector<std::vector<int>> inputs = resolve_inputs(config.layers);
  std::vector<Shape> shapes{input};
  std::vector<long> folded{1};
  std::vector<ChainLink> links;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    const Features features = type_of(layer).features;
    ChainLink link;
    link.config = layer;
    link.inputs = inputs[i];
    link.folded_pixels = folded[static_cast<std::size_t>(link.inputs.front())];
    for (const int value : link.inputs) {
      link.input_shapes.push_back(shapes[static_cast<std::size_t>(value)]);
      HALOGRAD_REQUIRE(folded[static_cast<std::size_t>(value)] == link.folded_pixels, "layer ", layer.name,
                       ": its inputs have features in different orders, which PyTorch's layout cannot express");
    }
    HALOGRAD_REQUIRE(link.folded_pixels == 1 || features != Features::pixels, "layer ", layer.name, " (", layer.type,
                     "): cannot be converted after a flatten layer");
    link.output = make_layer(layer, link.input_shapes)->output_shape();
    shapes.push_back(link.output);
    folded.push_back(features == Features::folded  ? link.folded_pixels * link.input_shapes.front().pixels()
                     : features == Features::mixed ? 1
                                                   : link.folded_pixels);
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace halograd
