#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace halograd {

/// [parallel]: replicas that are too large, or too slow, for one rank.
struct ParallelConfig {
  /// Blocks along each spatial axis of an image, (D, H, W), each the part of a rank of a group; {1}: no groups
  std::vector<int> spatial{1};
  /// Ranks of a group that divide the channels of dense layers and 1x1 convolutions among themselves; 1: none
  int channels = 1;
  bool operator==(const ParallelConfig&) const = default;

  /// The ranks of a group, which hold one replica together.
  [[nodiscard]] int group_ranks() const {
    return std::max(std::accumulate(spatial.begin(), spatial.end(), 1, std::multiplies<>()), channels);
  }
};

}  // namespace halograd
