#include "nn/layer.hpp"

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {

const Shape& single_input(const LayerConfig& config, const std::vector<Shape>& inputs) {
  HALOGRAD_REQUIRE(inputs.size() == 1, "layer ", config.name, " (", config.type, "): one input expected, ",
                   inputs.size(), " given");
  return inputs[0];
}

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
  std::string text;
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    if (!text.empty()) text += "x";
    text += std::to_string(extents[axis]);
  }
  return text;
}

std::unique_ptr<Layer> make_layer(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue) {
  if (config.type == "conv") return make_conv(config, inputs, epilogue);
  if (config.type == "conv_transpose") return make_conv_transpose(config, inputs);
  if (config.type == "dense") return make_dense(config, inputs, epilogue);
  if (config.type == "max_pool") return make_max_pool(config, inputs);
  if (config.type == "avg_pool") return make_avg_pool(config, inputs);
  if (config.type == "global_avg_pool") return make_global_avg_pool(config, inputs);
  if (config.type == "batch_norm") return make_batch_norm(config, inputs, epilogue);
  if (config.type == "group_norm") return make_group_norm(config, inputs);
  if (config.type == "layer_norm") return make_layer_norm(config, inputs);
  if (auto activation = make_activation(config, inputs)) return activation;
  if (config.type == "relu") return make_relu(config, inputs);
  if (config.type == "add") return make_add(config, inputs);
  if (config.type == "concat") return make_concat(config, inputs);
  if (config.type == "upsample") return make_upsample(config, inputs);
  if (config.type == "flatten") return make_flatten(config, inputs);
  if (config.type == "dropout") return make_dropout(config, inputs);
  fail("layer ", config.name, ": there is no layer type '", config.type, "'");
}

}  // namespace halograd
