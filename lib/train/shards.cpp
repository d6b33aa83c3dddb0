#include "train/shards.hpp"

#include <span>

#include "io/checkpoint_layout.hpp"
#include "window/group_window.hpp"

namespace halograd {

static_assert(GroupWindow::cut == checkpoint_chunk, "no chunk of a compressed row is of two shards");

Shards::Shards(const ReplicaGroup& group, const Space* space, std::size_t parameters)
    : group_(group.group()), space_(space), parameters_(parameters) {
  const GroupWindow::Shard shard = group.shard_of(parameters);
  begin_ = shard.begin;
  length_ = shard.length;
}

void Shards::gather(const Vector<float>& all) const {
  if (space_ != nullptr) space_->gather(ExecutionSpace(), all);
}

std::string Shards::name_of(const std::string& name, int place) {
  return place == 0 ? name : name + "_of_shard_" + std::to_string(place);
}

std::vector<SavedState> Shards::named(const std::vector<SavedState>& own) const {
  std::vector<SavedState> states = own;
  for (SavedState& state : states) state.name = name_of(state.name, group_ == nullptr ? 0 : group_->rank());
  return states;
}

std::vector<StateLayout> Shards::layout(const std::vector<SavedState>& own) const {
  std::vector<std::int64_t> counts;
  counts.reserve(own.size());
  for (const SavedState& state : own) counts.push_back(static_cast<std::int64_t>(count_of(state.values)));
  if (group_ != nullptr) counts = group_->gather(std::span<const std::int64_t>(counts));
  std::vector<StateLayout> states;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const SavedState& like = own[i % own.size()];
    states.push_back({name_of(like.name, static_cast<int>(i / own.size())), type_of(like.values), counts[i]});
  }
  return states;
}

std::optional<RowShare> Shards::share(const std::vector<SavedState>& own) const {
  if (group_ == nullptr) return {};
  const GroupWindow::Shard first = GroupWindow::shard(parameters_, 0, group_->ranks());
  return RowShare{.place = group_->rank(),
                  .ranks = group_->ranks(),
                  .parameters = static_cast<std::int64_t>(parameters_),
                  .begin = static_cast<std::int64_t>(begin_),
                  .longest = static_cast<std::int64_t>(first.length),
                  .averager = layout(own)};
}

}  // namespace halograd
