#include "train/replica_group.hpp"

#include "kernels/error.hpp"
#include "support/text.hpp"
#include "window/group_window.hpp"

namespace halograd {
namespace {

/// parallel.spatial, whose last number belongs to the last axis, W.
Blocks blocks_of(const ParallelConfig& parallel) {
  const std::vector<int>& spatial = parallel.spatial;
  Blocks blocks{1, 1, 1};
  HALOGRAD_REQUIRE(spatial.size() <= blocks.size(), "parallel.spatial has ", spatial.size(),
                   " numbers, expected one for each spatial axis of an image, at most 3");
  for (std::size_t axis = 1; axis <= spatial.size(); ++axis)
    blocks[blocks.size() - axis] = spatial[spatial.size() - axis];
  const int count = blocks[0] * blocks[1] * blocks[2];
  HALOGRAD_REQUIRE(parallel.channels == 1 || count == 1 || parallel.channels == count,
                   "parallel.channels = ", parallel.channels, ", but parallel.spatial = [", listed(spatial),
                   "] makes groups of ", count, " ranks; expected ", count, ", or 1");
  return blocks;
}

void require_axes_of(const Shape& image, const std::vector<int>& spatial) {
  const auto axes = static_cast<std::size_t>(image.dimensions);
  HALOGRAD_REQUIRE(spatial.size() == axes, "parallel.spatial has ",
                   counted(static_cast<double>(spatial.size()), "number"), ", expected one for each of the ", axes,
                   " spatial axes of the images");
}

}  // namespace

std::unique_ptr<Space> space_without_others(const ParallelConfig& parallel, const Shape& image) {
  const int ranks = parallel.group_ranks();
  if (ranks == 1) return nullptr;
  const Blocks blocks = blocks_of(parallel);
  if (blocks != Blocks{1, 1, 1}) require_axes_of(image, parallel.spatial);
  return std::make_unique<Space>(std::make_unique<GroupWindow>(ranks / 2, ranks), blocks, parallel.channels > 1);
}

ReplicaGroup::ReplicaGroup(const RunConfig& config, const Communicator& world)
    : world_(world), channels_(config.parallel.channels), ranks_(config.parallel.group_ranks()) {
  const std::vector<int>& spatial = config.parallel.spatial;
  world.require_same(listed(spatial), "parallel.spatial");
  world.require_same(std::to_string(channels_), "parallel.channels");
  world.together([&] {
    blocks_ = blocks_of(config.parallel);
    const std::string key = cuts_images() ? "parallel.spatial = [" + listed(spatial) + "]"
                                          : "parallel.channels = " + std::to_string(channels_);
    HALOGRAD_REQUIRE(world.ranks() % ranks() == 0, key, " makes groups of ", ranks(), " ranks, but this job has ",
                     world.ranks(), "; expected a multiple of ", ranks());
    HALOGRAD_REQUIRE(ranks() == 1 || !config.flood_filling.on(), key,
                     ": the field of view of a flood-filling network moves by itself in each image; expected 1, or "
                     "flood_filling.view = 0");
  });
  if (ranks() == 1) return;
  comms_ = std::make_unique<Comms>(world, ranks());
}

std::unique_ptr<Space> ReplicaGroup::make_space(const CommConfig& comm) const {
  if (!comms_) return nullptr;
  return std::make_unique<Space>(std::make_unique<GroupWindow>(comms_->group, transport_options(comm)), blocks_,
                                 channels_ > 1);
}

std::unique_ptr<Dataset> ReplicaGroup::open_dataset(const RunConfig& config, Split split, const Warn& warn) const {
  if (!cuts_images()) return halograd::open_dataset(config.data, split, config.training.seed, warn);
  const auto part = [this](const Shape& shape) {
    return box_of(blocks_, divide_evenly(blocks_, shape), shape, place());
  };
  std::unique_ptr<Dataset> data = open_parts(config.data, split, config.training.seed, warn, part);
  require_axes_of(data->shape(), config.parallel.spatial);
  return data;
}

}  // namespace halograd
