#pragma once

#include <array>
#include <span>
#include <vector>

#include "kernels/shape.hpp"

namespace halograd {

/// An image cut into tiles of one size that overlap, and what is predicted for them put together again. Along each axis
/// tiles lie as evenly as they can, the first at the image's begin and the last at its end, and neighbours share at
/// least the given part of a tile. A pixel's prediction is the mean over the tiles that cover it, weighted along each
/// axis by the distance to the tile's nearer edge, so that seams do not show; where one tile covers it, it is that
/// tile's to the bit.
class Tiling {
 public:
  /// `overlap`: the least share of a tile, 0 to below 1. Throws Error unless the image is at least as large as a tile
  /// along each axis, with as many axes and channels.
  Tiling(const Shape& image, const Shape& tile, double overlap);

  [[nodiscard]] const Shape& image() const { return image_; }
  [[nodiscard]] long tiles() const;
  /// Copies a tile of image ([D, [H,]] W, C) to out, of the tile's shape.
  void cut(std::span<const float> image, long tile, float* out) const;

  /// Adds a tile's predictions (pixels of a tile, width) to sums (pixels of the image, width), which start as 0.
  void add(std::span<const float> predictions, long tile, int width, std::span<double> sums) const;
  /// The means, once each tile was added: predictions as the sums.
  void finish(std::span<const double> sums, int width, std::span<float> predictions) const;

 private:
  /// body(pixel of the tile, pixel of the image, weight) for each row of a tile, `width` pixels from there on.
  template <class Body>
  void for_each_row(long tile, const Body& body) const;

  Shape image_, tile_;
  std::array<std::vector<int>, 3> begins_;      // of tiles, by axis
  std::array<std::vector<double>, 3> weights_;  // of a tile's pixels, by axis
  std::vector<double> whole_;                   // of the image's pixels: the sum over the tiles that cover it
};

}  // namespace halograd
