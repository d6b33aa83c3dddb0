#include "train/checkpoint_model.hpp"

namespace halograd {

void load_mean(const std::string& checkpoint, const Replica& replica) {
  const auto parameters = Kokkos::create_mirror_view(replica.parameters);
  const auto statistics = Kokkos::create_mirror_view(replica.statistics);
  read_checkpoint_mean(checkpoint, parameters, statistics);
  Kokkos::deep_copy(replica.parameters, parameters);
  Kokkos::deep_copy(replica.statistics, statistics);
}

}  // namespace halograd
