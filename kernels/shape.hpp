#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
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

/// Pixels [begin, end) of an image along the axes D, H, W: a part of it, or all of it.
struct Box {
  std::array<int, 3> begin{0, 0, 0};
  std::array<int, 3> end{1, 1, 1};

  [[nodiscard]] static constexpr Box whole(const Shape& shape) { return {{0, 0, 0}, shape.extents()}; }
  [[nodiscard]] constexpr std::array<int, 3> extents() const {
    return {end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]};
  }
  [[nodiscard]] constexpr bool empty() const { return end[0] <= begin[0] || end[1] <= begin[1] || end[2] <= begin[2]; }
  [[nodiscard]] constexpr long pixels() const {
    return empty() ? 0 : static_cast<long>(end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]);
  }
  /// What lies in both; may be empty.
  [[nodiscard]] constexpr Box common(const Box& other) const {
    Box box;
    for (int axis = 0; axis < 3; ++axis) {
      box.begin[axis] = begin[axis] > other.begin[axis] ? begin[axis] : other.begin[axis];
      box.end[axis] = end[axis] < other.end[axis] ? end[axis] : other.end[axis];
    }
    return box;
  }
  [[nodiscard]] constexpr bool holds(const Box& other) const { return common(other) == other; }
  bool operator==(const Box&) const = default;
};

/// The part of an image of this shape that a box is.
constexpr Shape part_of(const Shape& shape, const Box& box) {
  return {box.extents(), shape.channels, shape.dimensions};
}

/// body(the row's first pixel in the image, its first pixel in the box, pixels) for each row of a box along W.
template <class Body>
void for_each_row(const Shape& image, const Box& box, const Body& body) {
  const long pixels = box.end[2] - box.begin[2];
  long in_box = 0;
  for (long d = box.begin[0]; d < box.end[0]; ++d) {
    for (long h = box.begin[1]; h < box.end[1]; ++h, in_box += pixels) {
      body((d * image.height + h) * image.width + box.begin[2], in_box, pixels);
    }
  }
}

/// One number for every axis of an image, or one for each, along D, H, W; `otherwise` along axes that it has not.
/// Nothing where the numbers are neither one nor as many as the axes.
inline std::optional<std::array<int, 3>> along_axes(std::span<const int> numbers, int dimensions, int otherwise) {
  const auto axes = static_cast<std::size_t>(dimensions);
  if (numbers.size() != 1 && numbers.size() != axes) return std::nullopt;
  std::array<int, 3> all{otherwise, otherwise, otherwise};
  for (std::size_t axis = 0; axis < axes; ++axis) all[3 - axes + axis] = numbers[numbers.size() == 1 ? 0 : axis];
  return all;
}

/// "28x28x1", with as many extents as there are dimensions.
inline std::string to_string(const Shape& shape) {
  std::string text;
  const std::array<int, 3> extents = shape.extents();
  for (int axis = 3 - shape.dimensions; axis < 3; ++axis) text += std::to_string(extents[axis]) + "x";
  return text + std::to_string(shape.channels);
}

}  // namespace halograd
