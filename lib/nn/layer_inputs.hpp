#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/error.hpp"

namespace halograd {

/// What the images are called among the inputs of a layer.
inline constexpr const char* images_input = "input";

/// What is wrong with the inputs that a layer names.
class LayerInputsError : public Error {
 public:
  LayerInputsError(const std::string& message, std::string what_helps, std::size_t which_layer,
                   std::optional<std::size_t> which_input = {})
      : Error(message), hint(std::move(what_helps)), layer(which_layer), input(which_input) {}
  std::string hint;                  ///< may be empty
  std::size_t layer;                 ///< in the list
  std::optional<std::size_t> input;  ///< in the layer's inputs; none: their number is wrong
};

/// What each layer reads, one list per layer: 0 for the images, i + 1 for the output of layer i. A layer that names no
/// inputs reads the one before it. Throws LayerInputsError where an input is no earlier layer, a layer has more or
/// fewer inputs than its type takes, or two layers have the same name.
std::vector<std::vector<int>> resolve_inputs(const std::vector<LayerConfig>& layers);

}  // namespace halograd
