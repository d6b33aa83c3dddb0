#pragma once

#include <string>
#include <vector>

namespace halograd {

/// One [[network.layer]]. Which keys a layer takes is in the row of its type (nn/layer_types.cpp).
struct LayerConfig {
  std::string type;                 ///< the name of a row of nn/layer_types.cpp
  std::string name;                 ///< unique; the reader fills in type and running number ("conv3")
  std::vector<std::string> inputs;  ///< names of earlier layers, or "input"; empty: the layer before
  int channels = 0;                 ///< conv, conv_transpose, dense, slice: outputs K
  int first = 0;                    ///< slice: the first of its input's channels
  // A number for each spatial axis of the input (T, R, S), or one for all of them:
  std::vector<int> kernel{1};          ///< conv, conv_transpose, pools
  std::vector<int> stride{1};          ///< conv, conv_transpose, pools
  std::vector<int> padding{0};         ///< conv, conv_transpose, pools: zeros on each side
  std::vector<int> dilation{1};        ///< conv, conv_transpose
  std::vector<int> output_padding{0};  ///< conv_transpose: pixels added to the end of the output
  std::vector<int> factor{2};          ///< upsample
  int groups = 1;                      ///< conv, conv_transpose, group_norm
  bool bias = true;                    ///< conv, conv_transpose, dense
  double slope = 0.01;                 ///< leaky_relu: of negative values
  double scale = 1;                    ///< tanh: factor on its value
  double probability = 0.5;            ///< dropout: share of values set to zero
  double epsilon = 1e-5;               ///< batch_norm, group_norm, layer_norm
  double momentum = 0.1;               ///< batch_norm: weight of a new batch in the running statistics
  bool operator==(const LayerConfig&) const = default;
};

/// [network]: a reference network by name, or a list of layers.
struct NetworkConfig {
  std::string name;                 ///< a reference network; anything else with layers
  std::vector<LayerConfig> layers;  ///< empty: the reference network of that name
  bool operator==(const NetworkConfig&) const = default;
};

/// [loss]: what training makes small. Labels are one per image or one per pixel, as the data have them.
struct LossConfig {
  std::string name = "cross_entropy";  ///< the name of a row of nn/losses.cpp
  double label_smoothing = 0.0;        ///< cross-entropies: share of the target spread over all classes
  bool operator==(const LossConfig&) const = default;
};

}  // namespace halograd
