#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "nn/layer.hpp"

namespace halograd {

/// A reference network, and what it is usually trained on: the default of a benchmark.
struct ReferenceNetwork {
  std::string name;
  Shape input;
  int classes;
  int batch;
  std::function<std::vector<LayerConfig>(int outputs)> layers;
  bool binary_pixels = false;  ///< of labels 0 and 1 a pixel, by binary_cross_entropy
};
const std::vector<ReferenceNetwork>& reference_networks();
/// Of that name. Throws Error where there is none.
const ReferenceNetwork& reference_network(const std::string& name);

/// The network's layers, written out: those of the run file or, where it has none, those of the reference network of
/// that name, ending in `outputs` channels. Throws Error for an unknown name.
///   lenet5     1x28x28: 5x5 convolutions of 20 and 50 channels, 500 hidden units (LeCun et al., 1998, as Caffe has it)
///   vgg_small  3x32x32: six 3x3 convolutions of 64 to 256 channels, 256 hidden units (after Simonyan, Zisserman, 2015)
///   resnet20   3x32x32: 16, 32, 64 channels, three blocks each (He et al., 2016, section 4.2, projection shortcuts)
///   resnet18   3x32x32: 64 to 512 channels, two blocks each, 3x3 stem
///   resnet50   3x224x224: bottleneck blocks, stride in their 3x3 convolutions (as torchvision has it)
///   mobilenet_v2  3x224x224: inverted residuals of depthwise convolutions (Sandler et al., 2018; as torchvision)
///   unet2d     extents divisible by 8, outputs a pixel: 32 to 256 channels, batch-norm, transposed convolutions (after
///              Ronneberger et al., 2015)
///   ffn3d      volumes, outputs a voxel: four residual modules of 3x3x3 convolutions of 32 channels (after the
///              flood-filling networks of Januszewski et al., 2018)
/// `outputs` is outputs_of the target: for labels an image or a pixel, the channels that the network ends in.
NetworkConfig expand_network(const NetworkConfig& config, int outputs);

}  // namespace halograd
