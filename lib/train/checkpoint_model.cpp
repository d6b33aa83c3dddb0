#include "train/checkpoint_model.hpp"

namespace halograd {

std::vector<NamedTensor> named_tensors(const std::vector<TensorInfo>& tensors) {
  std::vector<NamedTensor> result;
  result.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) result.push_back({tensor.layer, tensor.name, tensor.extents, tensor.offset});
  return result;
}

void load_mean(const std::string& checkpoint, const Replica& replica) {
  const auto parameters = Kokkos::create_mirror_view(replica.parameters);
  const auto statistics = Kokkos::create_mirror_view(replica.statistics);
  read_checkpoint_mean(checkpoint, parameters, statistics);
  Kokkos::deep_copy(replica.parameters, parameters);
  Kokkos::deep_copy(replica.statistics, statistics);
}

}  // namespace halograd
