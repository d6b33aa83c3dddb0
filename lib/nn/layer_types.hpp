#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/shape.hpp"
#include "support/table.hpp"

/// What a layer can be: one row per type. A new type is a class and a factory in nn/layers/, a row in layer_types.cpp
/// and, where there is none for it yet, a kernel.
namespace halograd {

class Layer;

/// What follows a layer's own output in the same pass: see fuse.hpp.
struct Epilogue {
  bool add = false;    ///< its last input is added
  bool relu = false;   ///< then what is negative becomes zero
  bool relu6 = false;  ///< with relu and without add: and what is above 6 becomes 6
};

/// Makes a layer for inputs of these shapes, as many as its row says and one more where epilogue.add is set. Throws
/// Error naming the layer where the shapes do not fit.
using LayerFactory = std::unique_ptr<Layer>(const LayerConfig& config, const std::vector<Shape>& inputs,
                                            const Epilogue& epilogue);

/// How many inputs a layer takes.
struct InputCount {
  std::size_t least, most;
};
constexpr InputCount one_input{1, 1};
constexpr InputCount two_inputs{2, 2};
constexpr InputCount several_inputs{2, std::numeric_limits<std::size_t>::max()};

/// What a layer can become of an earlier one that computes it in the same pass.
enum class FusesAs { nothing, add, relu, relu6 };

/// What a layer makes of features that a flatten has laid out: this program flattens (S..., C), PyTorch and ONNX
/// flatten (C, S...).
enum class Features {
  apart,   ///< it treats each feature by itself, in whatever order
  mixed,   ///< its weights can be put into the other order
  folded,  ///< it is the flatten
  pixels   ///< it reads pixels: it cannot be converted behind a flatten
};

using LayerKeys = std::vector<std::string_view>;

struct LayerType {
  const char* name;
  Fact<const char*> meaning;
  Fact<LayerFactory*> make;
  Fact<LayerKeys> needs;  ///< keys of [[network.layer]] that have to be given
  Fact<LayerKeys> takes;  ///< keys that may be given
  Fact<InputCount> inputs;
  Fact<Epilogue> epilogue;  ///< what it can compute in the same pass
  Fact<FusesAs> fuses_as;
  Fact<Features> features;
};

const std::vector<LayerType>& layer_types();

/// The type of a layer. Throws Error naming the layer where there is no such type.
const LayerType& type_of(const LayerConfig& layer);

}  // namespace halograd
