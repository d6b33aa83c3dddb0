#include <cmath>

#include "kernels/finite.hpp"
#include "nn/network_node.hpp"

namespace halograd {

std::string Network::first_non_finite(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                                      std::uint64_t random_key) {
  load(exec, batch);
  if (count_non_finite(exec, batch_.images) > 0) return "the images";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    forward_node(exec, replica, i, batch.size, true, random_key);
    if (count_non_finite(exec, value(static_cast<int>(i) + 1, batch.size)) > 0) {
      return "the output of layer " + nodes_[i]->config.output;
    }
  }
  loss(exec, batch.size, {});
  if (!std::isfinite(read_loss(exec, target_, loss_).loss)) return "the loss";
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto& tensor = parameters_[i];
    if (count_non_finite(exec, slice(replica.gradients, tensor.offset, tensor.size())) > 0) {
      return "the gradient of layer " + tensor.layer;
    }
  }
  return "";
}

}  // namespace halograd
