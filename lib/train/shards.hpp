#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "kernels/types.hpp"
#include "support/numbers.hpp"
#include "train/replica_group.hpp"

namespace halograd {

/// What each rank of a group keeps of the group's replica: all ranks compute with all parameters, but each optimizes
/// and averages its own stretch of them, and then gets those of the others. Of a group of one: everything.
class Shards {
 public:
  /// `space`: of the group's network, whose parameters these are; null where the group is a rank.
  Shards(const ReplicaGroup& group, const Space* space, std::size_t parameters);

  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t length() const { return length_; }
  /// This rank's values of a flat range as long as the parameters.
  [[nodiscard]] Vector<float> of(const Vector<float>& all) const { return slice(all, begin_, length_); }

  /// Collective over the group: every rank gets the values that others keep.
  void gather(const Vector<float>& all) const;

  // What an averager keeps of each shard, in a checkpoint's row of the replica: the names tell them apart.
  /// This rank's states, as they are called there.
  [[nodiscard]] std::vector<SavedState> named(const std::vector<SavedState>& own) const;
  /// Collective over the group: those of all its ranks.
  [[nodiscard]] std::vector<StateLayout> layout(const std::vector<SavedState>& own) const;
  /// Collective over the group: what this rank has of the row; none where the group is a rank.
  [[nodiscard]] std::optional<RowShare> share(const std::vector<SavedState>& own) const;

 private:
  [[nodiscard]] static std::string name_of(const std::string& name, int place);

  const Communicator* group_;  ///< null: this rank alone
  const Space* space_;         ///< the same
  std::size_t parameters_, begin_, length_;
};

}  // namespace halograd
