#include <iomanip>
#include <sstream>

#include "nn/network_node.hpp"

/// What a network tells of itself.
namespace halograd {

double Network::forward_flops() const {
  double sum = 0;
  for (const auto& node : nodes_) sum += node->layer->forward_flops();
  return sum;
}

std::vector<NodeInfo> Network::nodes() const {
  std::vector<NodeInfo> result;
  for (const auto& node : nodes_) {
    NodeInfo& info = result.emplace_back();
    info.name = node->config.layer.name;
    info.types = node->config.types;
    for (const int value : node->config.inputs) {
      info.inputs.push_back(value == 0 ? input_shape_ : nodes_[value - 1]->shape);
      info.input_needs_gradient.push_back(value != 0);
    }
    info.output = node->shape;
    for (const NamedTensor& tensor : parameters_) info.parameters += tensor.layer == info.name ? tensor.size() : 0;
    info.forward_flops = node->layer->forward_flops();
    info.needs = node->needs;
  }
  return result;
}

std::string Network::describe() const {
  std::ostringstream out;
  for (const NodeInfo& node : nodes()) {
    out << std::left << std::setw(28) << node.name << std::setw(24) << node.types << std::setw(14)
        << to_string(node.output) << std::right << std::setw(10) << node.parameters << '\n';
  }
  return out.str();
}

}  // namespace halograd
