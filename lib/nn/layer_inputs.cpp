#include "nn/layer_inputs.hpp"

#include <algorithm>

#include "nn/layer_types.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

[[noreturn]] void fail_unknown(const std::vector<LayerConfig>& layers, std::size_t layer, std::size_t input,
                               const std::vector<std::string>& earlier) {
  const std::string &name = layers[layer].name, &wanted = layers[layer].inputs[input];
  if (wanted == name) throw LayerInputsError("layer \"" + name + "\" names itself as its input", "", layer, input);
  const std::string takes = "layer \"" + name + "\" takes \"" + wanted + "\", which ";
  if (std::any_of(layers.begin(), layers.end(), [&](const LayerConfig& each) { return each.name == wanted; })) {
    throw LayerInputsError(takes + "comes later; inputs must be earlier layers", "", layer, input);
  }
  throw LayerInputsError(takes + "is not a layer" + did_you_mean(wanted, earlier),
                         "layers before it: " + listed(earlier), layer, input);
}

/// The types whose layers take several inputs.
std::string joining_types() {
  std::string names;
  for (const LayerType& type : layer_types()) {
    if (type.inputs->most > 1) names += (names.empty() ? "" : " and ") + std::string(type.name);
  }
  return names;
}

void require_count(const LayerConfig& layer, std::size_t count, std::size_t index) {
  const auto [least, most] = *type_of(layer).inputs;
  if (count >= least && count <= most) return;
  const std::string found = ", found " + std::to_string(layer.inputs.size()), name = "layer \"" + layer.name + "\"";
  if (most == 1) {
    throw LayerInputsError(name + " takes one input" + found + "; only " + joining_types() + " take more", "", index);
  }
  throw LayerInputsError(name + " takes " + (least == most ? "two inputs" : "at least two inputs") + found,
                         "for example inputs = [\"conv2\", \"input\"]", index);
}

}  // namespace

std::vector<std::vector<int>> resolve_inputs(const std::vector<LayerConfig>& layers) {
  std::vector<std::vector<int>> inputs(layers.size());
  std::vector<std::string> earlier{images_input};  // value i is called earlier[i]
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerConfig& layer = layers[i];
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const auto found = std::find(earlier.begin(), earlier.end(), layer.inputs[k]);
      if (found == earlier.end()) fail_unknown(layers, i, k, earlier);
      inputs[i].push_back(static_cast<int>(found - earlier.begin()));
    }
    if (layer.inputs.empty()) inputs[i].push_back(static_cast<int>(i));
    require_count(layer, inputs[i].size(), i);
    if (std::find(earlier.begin(), earlier.end(), layer.name) != earlier.end()) {
      throw LayerInputsError("two layers are called \"" + layer.name + "\"", "", i);
    }
    earlier.push_back(layer.name);
  }
  return inputs;
}

}  // namespace halograd
