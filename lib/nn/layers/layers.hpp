#pragma once

#include <memory>
#include <vector>

#include "nn/layer.hpp"

/// The layers, one function each; make_layer picks by LayerConfig::type. Each throws Error where its inputs do not fit.
namespace halograd {

std::unique_ptr<Layer> make_conv(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue& epilogue);
std::unique_ptr<Layer> make_dense(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue);
std::unique_ptr<Layer> make_max_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_global_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_batch_norm(const LayerConfig& config, const std::vector<Shape>& inputs,
                                       const Epilogue& epilogue);
std::unique_ptr<Layer> make_relu(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_add(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_flatten(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_dropout(const LayerConfig& config, const std::vector<Shape>& inputs);

/// dy to the gradient of an input whose values the output takes over one by one; nothing where they share a place.
void pass_gradient(const ExecutionSpace& exec, const LayerCall& call, std::size_t input);

/// The only input, or an Error that says how many there are.
const Shape& single_input(const LayerConfig& config, const std::vector<Shape>& inputs);

}  // namespace halograd
