#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "nn/layer.hpp"

/// The layers, one function each; make_layer picks by LayerConfig::type. Each throws Error where its inputs do not fit.
namespace halograd {

std::unique_ptr<Layer> make_conv(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue& epilogue);
std::unique_ptr<Layer> make_conv_transpose(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_dense(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue);
std::unique_ptr<Layer> make_max_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_global_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_batch_norm(const LayerConfig& config, const std::vector<Shape>& inputs,
                                       const Epilogue& epilogue);
std::unique_ptr<Layer> make_group_norm(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_layer_norm(const LayerConfig& config, const std::vector<Shape>& inputs);
/// The functions that activation.cpp lists; null where the type is none of them.
std::unique_ptr<Layer> make_activation(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_relu(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_add(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_concat(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_upsample(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_flatten(const LayerConfig& config, const std::vector<Shape>& inputs);
std::unique_ptr<Layer> make_dropout(const LayerConfig& config, const std::vector<Shape>& inputs);

/// dy to the gradient of an input whose values the output takes over one by one; nothing where they share a place.
void pass_gradient(const ExecutionSpace& exec, const LayerCall& call, std::size_t input);

/// The only input, or an Error that says how many there are.
const Shape& single_input(const LayerConfig& config, const std::vector<Shape>& inputs);

/// What a key says of the axes D, H, W of an input: one number stands for all axes that the input has, `otherwise` for
/// those that it does not have. Throws Error where there are more or fewer.
std::array<int, 3> along_axes(const LayerConfig& config, const char* key, const std::vector<int>& numbers,
                              const Shape& input, int otherwise);

/// "3x5": the last `dimensions` extents.
std::string extents_text(const std::array<int, 3>& extents, int dimensions);

}  // namespace halograd
