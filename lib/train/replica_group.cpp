#include "train/replica_group.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "support/text.hpp"
#include "window/transport_options.hpp"

namespace halograd {

ReplicaGroup::ReplicaGroup(const RunConfig& config, const Communicator& world) : world_(world) {
  const std::vector<int>& spatial = config.parallel.spatial;
  world.require_same(listed(spatial), "parallel.spatial");
  world.together([&] {
    HALOGRAD_REQUIRE(spatial.size() <= blocks_.size(), "parallel.spatial has ", spatial.size(),
                     " numbers, expected one for each spatial axis of an image, at most 3");
    std::copy(spatial.begin(), spatial.end(), blocks_.end() - static_cast<long>(spatial.size()));
    HALOGRAD_REQUIRE(world.ranks() % ranks() == 0, "parallel.spatial = [", listed(spatial), "] makes groups of ",
                     ranks(), " ranks, but this job has ", world.ranks(), "; expected a multiple of ", ranks());
  });
  if (ranks() == 1) return;
  comms_ = std::make_unique<Comms>(world, ranks());
}

std::unique_ptr<Space> ReplicaGroup::make_space(const CommConfig& comm) const {
  return comms_ ? std::make_unique<Space>(comms_->group, blocks_, transport_options(comm)) : nullptr;
}

Box ReplicaGroup::part_of_image(const Shape& shape) const {
  return box_of(blocks_, divide_evenly(blocks_, shape), shape, place());
}

}  // namespace halograd
