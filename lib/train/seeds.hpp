#pragma once

#include <span>
#include <vector>

#include "train/flood_fill.hpp"

namespace halograd {

/// Where objects may be begun in an image ([D, [H,]] W, C): pixels that lie further from edges than all others within
/// 3 pixels along each axis, the furthest first. Edges are where the gradient of the brightness (Sobel's filter, over
/// the mean of the channels) is steeper than its mean around, weighted by a bell of 8 pixels' deviation (after
/// Januszewski et al., 2018, "Seed list").
std::vector<Pixel> find_seeds(std::span<const float> image, const Shape& shape);

}  // namespace halograd
