#pragma once

#include <vector>

namespace halograd {

/// [flood_filling]: the network sees a field of view at a time, and moves it along an object (train/flood_fill.hpp).
struct FloodFillingConfig {
  /// Extents of a field of view along the spatial axes of an image; {0}: none, the network sees whole images
  std::vector<int> view{0};
  std::vector<int> move{4};  ///< pixels along each axis from one field of view to the next
  int visits = 8;            ///< training: fields of view an image, at most
  double move_threshold = 0.9;
  [[nodiscard]] bool on() const { return view != std::vector<int>{0}; }
  bool operator==(const FloodFillingConfig&) const = default;
};

}  // namespace halograd
