#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "kernels/shape.hpp"

namespace halograd {

/// An image cut into tiles of one size that overlap. Along each axis tiles lie as evenly as they can, the first at the
/// image's begin and the last at its end, and neighbours share at least the given part of a tile. Tiles are counted
/// along W first, then H, then D.
class Tiling {
 public:
  /// Tiles along one axis.
  struct Axis {
    std::vector<int> begins;      ///< of tiles
    std::vector<double> weights;  ///< of a tile's pixels: the distance to its nearer edge
    std::vector<double> sums;     ///< of the image's pixels: of the weights of the tiles that cover it
  };

  /// `overlap`: the least share of a tile, 0 to below 1. Throws Error unless the image is at least as large as a tile
  /// along each axis, with as many axes and channels.
  Tiling(const Shape& image, const Shape& tile, double overlap);

  [[nodiscard]] const Shape& image() const { return image_; }
  [[nodiscard]] const Shape& tile() const { return tile_; }
  [[nodiscard]] const std::array<Axis, 3>& axes() const { return axes_; }
  [[nodiscard]] long tiles() const;
  /// The pixels of the image that a tile covers.
  [[nodiscard]] Box box(long tile) const;

 private:
  Shape image_, tile_;
  std::array<Axis, 3> axes_;
};

/// Puts images together again from what is predicted for their tiles. A pixel's prediction is the mean over the tiles
/// that cover it, weighted along each axis by the distance to the tile's nearer edge, so that seams do not show; where
/// one tile covers it, it is that tile's to the bit. Sums are held for as much of an image as a tile is long, along the
/// first axis with more than one tile.
class TileBlend {
 public:
  /// Is given each part of an image when it is complete: the part, and predictions (pixels of the part, width).
  using Finished = std::function<void(const Box& part, std::span<const float> predictions)>;

  TileBlend(const Tiling& tiling, int width, Finished finished);

  /// The predictions (pixels of a tile, width) for the next tile of an image, or for the first one of the next image.
  void add(std::span<const float> predictions);

 private:
  void finish(int end);

  const Tiling& tiling_;
  int width_, axis_ = 0;
  Finished finished_;
  long next_ = 0;             // tile of the image
  Box held_;                  // pixels of the image that sums_ are of
  std::vector<double> sums_;  // (pixels of held_, width)
  std::vector<float> predictions_;
};

}  // namespace halograd
