#include "train/shards.hpp"
#include "window/group_window.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <variant>

namespace halograd {
namespace {

/// The bytes from one state to the next, so that each lies as its type needs.
std::size_t whole_units(std::size_t bytes) {
  constexpr std::size_t unit = sizeof(double);
  return (bytes + unit - 1) / unit * unit;
}

/// As many numbers of the same type from `bytes` on.
SavedState placed(const SavedState& like, std::string name, std::byte* bytes, std::size_t count) {
  const auto place = [&](auto range) -> Numbers {
    return std::span(reinterpret_cast<decltype(range.data())>(bytes), count);
  };
  return {std::move(name), std::visit(place, like.values)};
}

}  // namespace

Shards::Shards(const ReplicaGroup& group, const Space* space, std::size_t parameters)
    : group_(group.group()), space_(space) {
  const GroupWindow::Shard shard = group.shard_of(parameters);
  begin_ = shard.begin;
  length_ = shard.length;
}

void Shards::gather(const Vector<float>& all) const {
  if (space_ != nullptr) space_->gather(ExecutionSpace(), all);
}

void Shards::take_from_first(const Vector<float>& all) const {
  if (group_ == nullptr) return;
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), all);
  group_->broadcast(std::span(host.data(), host.size()));
  Kokkos::deep_copy(all, host);
}

void Shards::gather_on_first(const Vector<float>& own, HostVector<float> all) const {
  if (group_ == nullptr) return Kokkos::deep_copy(all, own);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), own);
  if (group_->rank() != 0) return group_->send(std::span<const float>(host.data(), host.size()), 0);
  Kokkos::deep_copy(slice(all, begin_, length_), host);
  for (int place = 1; place < group_->ranks(); ++place) {
    const GroupWindow::Shard shard = GroupWindow::shard(all.size(), place, group_->ranks());
    group_->receive(std::span(all.data() + shard.begin, shard.length), place);
  }
}

std::string Shards::name_of(const std::string& name, int place) const {
  return place == 0 ? name : name + "_of_shard_" + std::to_string(place);
}

std::vector<SavedState> Shards::named(const std::vector<SavedState>& own) const {
  std::vector<SavedState> states = own;
  for (SavedState& state : states) state.name = name_of(state.name, group_ == nullptr ? 0 : group_->rank());
  return states;
}

std::vector<SavedState> Shards::layout(const std::vector<SavedState>& own) const {
  if (group_ == nullptr) return own;
  std::vector<std::size_t> counts;
  counts.reserve(own.size());
  for (const SavedState& state : own) counts.push_back(count_of(state.values));
  const std::vector<std::size_t> all = group_->gather(std::span<const std::size_t>(counts));
  std::vector<SavedState> states;
  for (int place = 0; place < group_->ranks(); ++place) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      states.push_back(
          placed(own[i], name_of(own[i].name, place), nullptr, all[static_cast<std::size_t>(place) * own.size() + i]));
    }
  }
  return states;
}

std::vector<SavedState> Shards::gather_states(const std::vector<SavedState>& own) {
  if (group_ == nullptr) return own;
  std::vector<std::byte> mine;
  for (const SavedState& state : own) {
    const std::span<const std::byte> bytes = bytes_of(state.values);
    mine.insert(mine.end(), bytes.begin(), bytes.end());
    mine.resize(whole_units(mine.size()));
  }
  std::vector<SavedState> states = layout(own);
  states_ = group_->join_on_root(mine);
  if (group_->rank() != 0) return own;
  std::byte* at = states_.data();
  for (SavedState& state : states) {
    state = placed(state, state.name, at, count_of(state.values));
    at += whole_units(bytes_of(state.values).size());
  }
  return states;
}

}  // namespace halograd
