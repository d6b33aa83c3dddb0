#pragma once

#include <memory>

#include "config/config.hpp"
#include "data/dataset.hpp"
#include "mpi/communicator.hpp"
#include "nn/space.hpp"
#include "window/group_window.hpp"

namespace halograd {

/// The middle rank of a group, alone (GroupWindow); null where a group has one rank. Throws Error where
/// parallel.spatial does not fit the images, or parallel.channels makes other groups.
std::unique_ptr<Space> space_without_others(const ParallelConfig& parallel, const Shape& image);

/// The ranks that share a replica (parallel.spatial, parallel.channels): consecutive ones. What ranks of other runs do
/// among all ranks, averaging, dealing images, counting, those with the same place in their groups do among themselves,
/// and so every rank of a group does the same with the same numbers.
class ReplicaGroup {
 public:
  /// Collective. Throws CollectiveError where the number of ranks is no multiple of a group's, where parallel.spatial
  /// and parallel.channels make different groups, and for groups of several ranks with a flood-filling network.
  ReplicaGroup(const RunConfig& config, const Communicator& world);

  [[nodiscard]] int ranks() const { return ranks_; }
  /// Whether each rank has a part of every image.
  [[nodiscard]] bool cuts_images() const { return blocks() > 1; }
  /// This rank's place in its group.
  [[nodiscard]] int place() const { return comms_ ? comms_->group.rank() : 0; }
  /// The stretch of so many parameters that this rank keeps.
  [[nodiscard]] GroupWindow::Shard shard_of(std::size_t parameters) const {
    return GroupWindow::shard(parameters, place(), ranks());
  }
  /// Its ranks; null where it is this rank alone.
  [[nodiscard]] const Communicator* group() const { return comms_ ? &comms_->group : nullptr; }
  // What the group does together must not depend on what one of its ranks happens to see. Collective over the group.
  /// Whether any of its ranks says so, or all.
  [[nodiscard]] bool any(bool own) const { return comms_ ? comms_->group.largest(own ? 1 : 0) > 0 : own; }
  [[nodiscard]] bool all(bool own) const { return comms_ ? comms_->group.smallest(own ? 1 : 0) > 0 : own; }
  /// The ranks with this one's place: one for each replica.
  [[nodiscard]] const Communicator& replicas() const { return comms_ ? comms_->replicas : world_; }
  /// Collective over the group; null where it is this rank alone.
  [[nodiscard]] std::unique_ptr<Space> make_space(const CommConfig& comm) const;
  /// A set of which this rank is given its part of each image. Throws Error where parallel.spatial has not as many
  /// numbers as the images axes.
  [[nodiscard]] std::unique_ptr<Dataset> open_dataset(const RunConfig& config, Split split, const Warn& warn) const;

 private:
  [[nodiscard]] int blocks() const { return blocks_[0] * blocks_[1] * blocks_[2]; }

  const Communicator& world_;
  Blocks blocks_{1, 1, 1};
  int channels_, ranks_;
  struct Comms {
    Comms(const Communicator& world, int ranks)
        : group(world.split(world.rank() / ranks)), replicas(world.split(world.rank() % ranks)) {}
    OwnedComm group, replicas;
  };
  std::unique_ptr<Comms> comms_;  ///< null where a group is a rank
};

}  // namespace halograd
