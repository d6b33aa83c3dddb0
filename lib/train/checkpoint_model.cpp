#include "train/checkpoint_model.hpp"

#include <algorithm>

#include "config/read.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::vector<NamedTensor> named_tensors(const std::vector<TensorInfo>& tensors) {
  std::vector<NamedTensor> result;
  result.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) result.push_back({tensor.layer, tensor.name, tensor.extents, tensor.offset});
  return result;
}

// Lengths alone do not tell: other networks may have as many parameters, other optimizers as many buffers.
void require_same_model(const CheckpointHeader& header, const RunConfig& config, const std::string& path) {
  const RunConfig before = parse_config(header.config, path + ", attribute config");
  const NetworkConfig &old = before.network, &asked = config.network;
  HALOGRAD_REQUIRE(old.name == asked.name, "checkpoint ", path, " is of the network '", old.name,
                   "', but the run file describes '", asked.name, "'");
  const auto differ = std::mismatch(old.layers.begin(), old.layers.end(), asked.layers.begin(), asked.layers.end());
  HALOGRAD_REQUIRE(old == asked, "checkpoint ", path, " is of another network '", old.name, "' than the run file's: ",
                   differ.first == old.layers.end() ? "it has no layer '" + differ.second->name + "'"
                                                    : "its layer '" + differ.first->name + "' is not the same");
  HALOGRAD_REQUIRE(before.optimizer.name == config.optimizer.name, "checkpoint ", path, " is of the optimizer '",
                   before.optimizer.name, "', but the run file asks for '", config.optimizer.name, "'");
}

void load_mean(const std::string& checkpoint, const Replica& replica) {
  const auto parameters = Kokkos::create_mirror_view(replica.parameters);
  const auto statistics = Kokkos::create_mirror_view(replica.statistics);
  read_checkpoint_mean(checkpoint, parameters, statistics);
  Kokkos::deep_copy(replica.parameters, parameters);
  Kokkos::deep_copy(replica.statistics, statistics);
}

}  // namespace halograd
