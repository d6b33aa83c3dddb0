#include "nn/layer.hpp"

#include <span>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"
#include "support/text.hpp"

namespace halograd {

std::array<int, 3> along_axes(const LayerConfig& config, const char* key, const std::vector<int>& numbers,
                              const Shape& input, int otherwise) {
  const std::size_t axes = static_cast<std::size_t>(input.dimensions);
  HALOGRAD_REQUIRE(numbers.size() == 1 || numbers.size() == axes, "layer ", config.name, " (", config.type, "): ", key,
                   " has ", numbers.size(), " numbers, expected one, or one for each of the ", axes,
                   " spatial axes of its input of ", to_string(input));
  std::array<int, 3> all{otherwise, otherwise, otherwise};
  for (std::size_t i = 0; i < axes; ++i) all[3 - axes + i] = numbers[numbers.size() == 1 ? 0 : i];
  return all;
}

std::string extents_text(const std::array<int, 3>& extents, int dimensions) {
  return listed(std::span(extents).last(static_cast<std::size_t>(dimensions)), "x");
}

std::unique_ptr<Layer> make_layer(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue) {
  return type_of(config).make(config, inputs, epilogue);
}

}  // namespace halograd
