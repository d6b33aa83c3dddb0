#pragma once

#include <cstddef>
#include <vector>

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
  /// Collective over the group: every rank gets all of what the first has.
  void take_from_first(const Vector<float>& all) const;
  /// Collective over the group: its first rank gets all ranks' stretches, one after the other, in host memory; on the
  /// others `all` is not touched.
  void gather_on_first(const Vector<float>& own, HostVector<float> all) const;

  // What an averager keeps of each shard, in a checkpoint's row of the replica: the names tell them apart.
  /// Collective over the group: on its first rank the states of all, valid until the next call; elsewhere this rank's.
  [[nodiscard]] std::vector<SavedState> gather_states(const std::vector<SavedState>& own);
  /// This rank's, as they are called there.
  [[nodiscard]] std::vector<SavedState> named(const std::vector<SavedState>& own) const;
  /// Collective over the group: names, types and lengths of all, without values.
  [[nodiscard]] std::vector<SavedState> layout(const std::vector<SavedState>& own) const;

 private:
  [[nodiscard]] std::string name_of(const std::string& name, int place) const;

  const Communicator* group_;  ///< null: this rank alone
  const Space* space_;         ///< the same
  std::size_t begin_, length_;
  std::vector<std::byte> states_;
};

}  // namespace halograd
