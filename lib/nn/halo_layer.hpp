#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/shape.hpp"
#include "nn/layer.hpp"
#include "nn/space.hpp"

namespace halograd {

/// What the ranks of a group have of a value, and what the layers that read it need of it, a box per rank.
struct HaloBoxes {
  bool divided = false;    ///< else every rank has all
  std::vector<Box> own;    ///< what ranks have
  std::vector<Box> needs;  ///< what they need: their block and the edges of others', or something else
};

/// A layer that gets a rank what it needs of a value from the ranks that have it, and takes the gradient back. `shape`:
/// of the whole. Tells `space`, which must outlive it, of its messages for up to `largest_batch` images.
std::unique_ptr<Layer> make_halo_layer(Space& space, const Shape& shape, const HaloBoxes& boxes, int largest_batch,
                                       ValueType type);

}  // namespace halograd
