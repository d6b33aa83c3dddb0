#pragma once

#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/shape.hpp"
#include "support/table.hpp"

namespace halograd {

/// A network that needs no list of layers, and what it is usually trained on: the default of a benchmark.
struct ReferenceNetwork {
  const char* name;
  Fact<const char*> meaning;
  Fact<Shape> input;
  Fact<int> classes;
  Fact<int> batch;
  Fact<const char*> loss;
  Fact<bool> labels_pixels;  ///< a label per pixel instead of one per image
  Fact<std::vector<LayerConfig> (*)(int outputs)> layers;
};

/// A new network is a function that lists its layers and a row, both in reference_networks.cpp.
const std::vector<ReferenceNetwork>& reference_networks();

/// The row of that name. Throws Error where there is none.
const ReferenceNetwork& reference_network(const std::string& name);

/// The network's layers, written out: those of the run file or, where it has none, those of the reference network of
/// that name, ending in `outputs` channels (outputs_of the target). Throws Error for an unknown name.
NetworkConfig expand_network(const NetworkConfig& config, int outputs);

}  // namespace halograd
