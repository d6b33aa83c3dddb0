#include "nn/layer.hpp"

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {

std::string to_string(const Shape& shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width) + "x" + std::to_string(shape.channels);
}

const Shape& single_input(const LayerConfig& config, const std::vector<Shape>& inputs) {
  HALOGRAD_REQUIRE(inputs.size() == 1, "layer ", config.name, " (", config.type, "): one input expected, ",
                   inputs.size(), " given");
  return inputs[0];
}

std::unique_ptr<Layer> make_layer(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue) {
  if (config.type == "conv") return make_conv(config, inputs, epilogue);
  if (config.type == "dense") return make_dense(config, inputs, epilogue);
  if (config.type == "max_pool") return make_max_pool(config, inputs);
  if (config.type == "avg_pool") return make_avg_pool(config, inputs);
  if (config.type == "global_avg_pool") return make_global_avg_pool(config, inputs);
  if (config.type == "batch_norm") return make_batch_norm(config, inputs, epilogue);
  if (config.type == "relu") return make_relu(config, inputs);
  if (config.type == "add") return make_add(config, inputs);
  if (config.type == "flatten") return make_flatten(config, inputs);
  if (config.type == "dropout") return make_dropout(config, inputs);
  fail("layer ", config.name, ": there is no layer type '", config.type, "'");
}

}  // namespace halograd
