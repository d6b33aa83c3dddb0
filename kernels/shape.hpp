#pragma once

#include <array>
#include <string>

namespace halograd {

/// Extents of one sample in one to three spatial dimensions; a batch of it is stored (N, [D, [H,]] W, C), channels
/// fastest. Axes that a sample does not have are 1, so that kernels see three always. Flat features are one pixel.
struct Shape {
  int depth = 1;
  int height = 1;
  int width = 1;
  int channels = 0;
  int dimensions = 2;  ///< spatial ones: 1 to 3

  constexpr Shape() = default;
  constexpr Shape(int w, int c) : width(w), channels(c), dimensions(1) {}
  constexpr Shape(int h, int w, int c) : height(h), width(w), channels(c) {}
  constexpr Shape(int d, int h, int w, int c) : depth(d), height(h), width(w), channels(c), dimensions(3) {}
  /// `extents` (D, H, W), of which the last `dims` count.
  constexpr Shape(const std::array<int, 3>& extents, int c, int dims)
      : depth(extents[0]), height(extents[1]), width(extents[2]), channels(c), dimensions(dims) {}

  [[nodiscard]] constexpr std::array<int, 3> extents() const { return {depth, height, width}; }
  [[nodiscard]] constexpr long pixels() const { return static_cast<long>(depth) * height * width; }
  [[nodiscard]] constexpr long values() const { return pixels() * channels; }
  bool operator==(const Shape&) const = default;
};

/// "28x28x1", with as many extents as there are dimensions.
inline std::string to_string(const Shape& shape) {
  std::string text;
  const std::array<int, 3> extents = shape.extents();
  for (int axis = 3 - shape.dimensions; axis < 3; ++axis) text += std::to_string(extents[axis]) + "x";
  return text + std::to_string(shape.channels);
}

}  // namespace halograd
