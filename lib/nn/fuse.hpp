#pragma once

#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "nn/layer_types.hpp"

namespace halograd {

/// A node of a network: a layer, and what is applied to its output in the same pass.
struct NodeConfig {
  int index = 0;            ///< of the layer in the list
  LayerConfig layer;        ///< as given
  std::vector<int> inputs;  ///< 0 for the images, i + 1 for the output of node i; the last one may be epilogue.add's
  Epilogue epilogue;        ///< the layers that were fused into this one
  std::string output;       ///< the layer whose output this is: the last one fused
  std::string types;        ///< "batch_norm + add + relu"
};

/// The nodes of a list of layers, in an order in which they can be computed. With `fused`, by three rules:
///   a relu goes into the conv, dense or batch_norm whose output only it reads;
///   a relu6 goes into a batch_norm whose output only it reads, and that nothing is added to;
///   an add goes into the later of its operands, where that is a batch_norm whose output only it reads.
/// None changes parameters, their names, or results. Throws Error where inputs cannot be resolved (resolve_inputs).
std::vector<NodeConfig> make_nodes(const std::vector<LayerConfig>& layers, bool fused);

}  // namespace halograd
