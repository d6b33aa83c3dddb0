#include "nn/fuse.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace halograd {
namespace {

bool takes_relu(const NodeConfig& node) {
  const std::string& type = node.layer.type;
  return !node.epilogue.relu && (type == "conv" || type == "dense" || type == "batch_norm");
}

bool takes_add(const NodeConfig& node) {
  return !node.epilogue.add && !node.epilogue.relu && node.layer.type == "batch_norm";
}

/// A list of nodes that grows layer by layer.
class NodeList {
 public:
  explicit NodeList(const std::vector<LayerConfig>& layers) {
    for (const LayerConfig& layer : layers) {
      for (const std::string& name : layer.inputs) ++readers_[name];
    }
  }

  void append(int index, const LayerConfig& layer) {
    producer_[layer.name] = static_cast<int>(nodes.size());
    nodes.push_back({index, layer, {}, layer.name, layer.type});
  }

  bool fuse_relu(const LayerConfig& layer) {
    const int node = producer(layer.inputs[0]);
    if (layer.inputs.size() != 1 || node < 0 || readers_[layer.inputs[0]] != 1 || !takes_relu(nodes[node]))
      return false;
    nodes[node].epilogue.relu = true;
    extend(node, layer);
    return true;
  }

  bool fuse_add(const LayerConfig& layer) {
    if (layer.inputs.size() != 2) return false;
    const bool first_is_later = producer(layer.inputs[0]) > producer(layer.inputs[1]);
    const std::string &later = layer.inputs[first_is_later ? 0 : 1], &other = layer.inputs[first_is_later ? 1 : 0];
    const int node = producer(later);
    if (node < 0 || readers_[later] != 1 || !takes_add(nodes[node])) return false;
    nodes[node].epilogue.add = true;
    nodes[node].layer.inputs.push_back(other);
    extend(node, layer);
    return true;
  }

  std::vector<NodeConfig> nodes;

 private:
  /// The node with this output; -1 for the network's input and for names that do not exist.
  [[nodiscard]] int producer(const std::string& name) const {
    const auto found = producer_.find(name);
    return found == producer_.end() ? -1 : found->second;
  }

  void extend(int node, const LayerConfig& layer) {
    nodes[node].output = layer.name;
    nodes[node].types += " + " + layer.type;
    producer_[layer.name] = node;
  }

  std::map<std::string, int> readers_;
  std::map<std::string, int> producer_;
};

/// The layers with all inputs named: a layer without any reads the one before it.
std::vector<LayerConfig> with_inputs(std::vector<LayerConfig> layers) {
  std::string previous = "input";
  std::map<std::string, int> seen{{"input", 1}};
  for (LayerConfig& layer : layers) {
    HALOGRAD_REQUIRE(seen[layer.name]++ == 0, "layer ", layer.name, ": this name stands twice");
    if (layer.inputs.empty()) layer.inputs = {previous};
    previous = layer.name;
  }
  return layers;
}

}  // namespace

std::vector<NodeConfig> make_nodes(const std::vector<LayerConfig>& layers, bool fused) {
  const std::vector<LayerConfig> complete = with_inputs(layers);
  NodeList list(complete);
  for (std::size_t i = 0; i < complete.size(); ++i) {
    const LayerConfig& layer = complete[i];
    if (fused && layer.type == "relu" && list.fuse_relu(layer)) continue;
    if (fused && layer.type == "add" && list.fuse_add(layer)) continue;
    list.append(static_cast<int>(i), layer);
  }
  return std::move(list.nodes);
}

}  // namespace halograd
