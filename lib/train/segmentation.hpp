#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "config/flood_filling_config.hpp"
#include "mpi/communicator.hpp"
#include "nn/network.hpp"
#include "train/flood_fill.hpp"

namespace halograd {

/// The number of the object that each pixel of an image belongs to; 0: none.
struct Objects {
  std::vector<std::uint32_t> labels;
  std::uint32_t count = 0;  ///< numbers are 1 to count
};

struct SegmentationRules {
  double threshold = 0.6;   ///< a pixel belongs to an object where that is at least so probable
  long least_pixels = 100;  ///< smaller objects are dropped
  bool backwards = false;   ///< seeds are taken last to first
};

/// Every object of one image ([D, [H,]] W, C), normalised, found by a flood-filling network from the image's seeds, one
/// after the other: what belongs to an object is no other's (Januszewski et al., 2018). `done` is told the share of
/// the seeds that are dealt with.
Objects segment(Network& network, const Replica& replica, const FloodFillingConfig& config,
                std::span<const float> image, const Shape& shape, const SegmentationRules& rules,
                const std::function<void(double share)>& done);

/// Splits objects wherever one of two segmentations of an image does, so that only what both have in common stays
/// joined (oversegmentation consensus of the same source). Objects of fewer pixels are dropped.
Objects consensus(const Objects& one, const Objects& other, long least_pixels);

/// Rank `rank` of `ranks`' part of an image along one axis: slabs [begin, end), whose inner parts [core_begin,
/// core_end) are disjoint and cover the image.
struct Slab {
  int begin, core_begin, core_end, end;
};
/// Slabs reach `margin` into each neighbour's inner part. Throws Error where an inner part would be shorter.
Slab slab_of(int extent, int margin, int rank, int ranks);

/// Collective. Numbers the objects of all ranks' slabs, which lie along the labels' first axis in rows of `row` pixels,
/// alike: objects of neighbouring slabs that cover mostly the same pixels of what both slabs hold (intersection over
/// union of at least 1/2) are one. Returns how many there are in all inner parts together.
std::uint32_t join_slabs(const Communicator& comm, int extent, int margin, long row, Objects& objects);

}  // namespace halograd
