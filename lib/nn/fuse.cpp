#include "nn/fuse.hpp"

#include <utility>

#include "nn/layer_inputs.hpp"

namespace halograd {
namespace {

/// A list of nodes that grows layer by layer. Layers' outputs are numbered as resolve_inputs does.
class NodeList {
 public:
  explicit NodeList(const std::vector<LayerConfig>& layers)
      : layers_(layers), inputs_(resolve_inputs(layers)), readers_(layers.size() + 1) {
    for (const std::vector<int>& list : inputs_) {
      for (const int output : list) ++readers_[output];
    }
  }

  void append(int layer) {
    std::vector<int> inputs;
    for (const int output : inputs_[layer]) inputs.push_back(value_[output]);
    nodes.push_back({layer, layers_[layer], inputs, {}, layers_[layer].name, layers_[layer].type});
    value_.push_back(static_cast<int>(nodes.size()));
  }

  /// Whether the layer has become part of an earlier node.
  bool fuse(int layer) {
    switch (*type_of(layers_[layer]).fuses_as) {
      case FusesAs::relu:
        return fuse_relu(layer, false);
      case FusesAs::relu6:
        return fuse_relu(layer, true);
      case FusesAs::add:
        return fuse_add(layer);
      case FusesAs::nothing:
        break;
    }
    return false;
  }

  std::vector<NodeConfig> nodes;

 private:
  bool fuse_relu(int layer, bool six) {
    NodeConfig* const node = node_read_once(inputs_[layer][0]);
    if (node == nullptr || node->epilogue.relu || (six && node->epilogue.add)) return false;
    const Epilogue& possible = *type_of(node->layer).epilogue;
    if (!(six ? possible.relu6 : possible.relu)) return false;
    node->epilogue.relu = true;
    node->epilogue.relu6 = six;
    extend(*node, layer);
    return true;
  }

  bool fuse_add(int layer) {
    const std::vector<int>& inputs = inputs_[layer];
    const bool first_is_later = value_[inputs[0]] > value_[inputs[1]];
    NodeConfig* const node = node_read_once(inputs[first_is_later ? 0 : 1]);
    if (node == nullptr || node->epilogue.add || node->epilogue.relu || !type_of(node->layer).epilogue->add) {
      return false;
    }
    node->epilogue.add = true;
    node->inputs.push_back(value_[inputs[first_is_later ? 1 : 0]]);
    extend(*node, layer);
    return true;
  }

  /// The node that makes an output which one layer alone reads; nullptr for others, and for the images.
  NodeConfig* node_read_once(int output) {
    return output == 0 || readers_[output] != 1 ? nullptr : &nodes[value_[output] - 1];
  }

  void extend(NodeConfig& node, int layer) {
    node.output = layers_[layer].name;
    node.types += " + " + layers_[layer].type;
    value_.push_back(static_cast<int>(&node - nodes.data()) + 1);
  }

  const std::vector<LayerConfig>& layers_;
  std::vector<std::vector<int>> inputs_;
  std::vector<int> readers_;   ///< of each output
  std::vector<int> value_{0};  ///< of each output so far: as NodeConfig::inputs numbers them
};

}  // namespace

std::vector<NodeConfig> make_nodes(const std::vector<LayerConfig>& layers, bool fused) {
  NodeList list(layers);
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    if (!fused || !list.fuse(layer)) list.append(layer);
  }
  return std::move(list.nodes);
}

}  // namespace halograd
