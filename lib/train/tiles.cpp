#include "train/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {

Tiling::Tiling(const Shape& image, const Shape& tile, double overlap) : image_(image), tile_(tile) {
  const std::array<int, 3> lengths = image.extents(), sizes = tile.extents();
  for (std::size_t i = 0; i < 3; ++i) {
    const int length = lengths[i], size = sizes[i];
    HALOGRAD_REQUIRE(length >= size && image.channels == tile.channels && image.dimensions == tile.dimensions,
                     "an image of ", to_string(image), " cannot be cut into tiles of ", to_string(tile));
    Axis& axis = axes_[i];
    for (int place = 0; place < size; ++place) axis.weights.push_back(std::min(place + 1, size - place));
    axis.sums.resize(static_cast<std::size_t>(length));
    const int step = std::max(1, static_cast<int>(std::floor((1 - overlap) * size + 1e-9)));  // 1 - 0.9 is below 0.1
    const int gaps = (length - size + step - 1) / step;
    for (int tile_number = 0; tile_number <= gaps; ++tile_number) {
      const int begin = static_cast<int>(static_cast<long>(tile_number) * (length - size) / std::max(1, gaps));
      axis.begins.push_back(begin);
      std::transform(axis.weights.begin(), axis.weights.end(), axis.sums.begin() + begin, axis.sums.begin() + begin,
                     std::plus<>());
    }
  }
}

long Tiling::tiles() const {
  long count = 1;
  for (const Axis& axis : axes_) count *= static_cast<long>(axis.begins.size());
  return count;
}

Box Tiling::box(long tile) const {
  const std::array<int, 3> sizes = tile_.extents();
  Box box;
  for (std::size_t i = 3; i-- > 0;) {
    const auto count = static_cast<long>(axes_[i].begins.size());
    box.begin[i] = axes_[i].begins[static_cast<std::size_t>(tile % count)];
    box.end[i] = box.begin[i] + sizes[i];
    tile /= count;
  }
  return box;
}

TileBlend::TileBlend(const Tiling& tiling, int width, Finished finished)
    : tiling_(tiling), width_(width), finished_(std::move(finished)), held_(Box::whole(tiling.image())) {
  while (axis_ < 2 && tiling.axes()[axis_].begins.size() == 1) ++axis_;
  held_.end[axis_] = tiling.tile().extents()[axis_];
  sums_.resize(static_cast<std::size_t>(held_.pixels() * width));
}

void TileBlend::add(std::span<const float> predictions) {
  const std::array<Tiling::Axis, 3>& axes = tiling_.axes();
  Box box = tiling_.box(next_);
  if (box.begin[axis_] > held_.begin[axis_]) finish(box.begin[axis_]);
  box.begin[axis_] -= held_.begin[axis_];
  box.end[axis_] -= held_.begin[axis_];
  const int height = tiling_.tile().height;
  long row = 0;
  for_each_row(part_of(tiling_.image(), held_), box, [&](long to, long from, long /*pixels*/) {
    const double row_weight = axes[0].weights[static_cast<std::size_t>(row / height)] *
                              axes[1].weights[static_cast<std::size_t>(row % height)];
    ++row;
    const float* value = predictions.data() + from * width_;
    double* sum = sums_.data() + to * width_;
    for (const double along : axes[2].weights) {
      for (int k = 0; k < width_; ++k) *sum++ += row_weight * along * static_cast<double>(*value++);
    }
  });
  if (++next_ < tiling_.tiles()) return;
  const int size = held_.extents()[axis_];
  finish(held_.end[axis_]);
  next_ = 0;
  held_.begin[axis_] = 0;
  held_.end[axis_] = size;
}

/// Hands on what lies before pixel `end` of the axis, a few rows at once, and goes on behind it.
void TileBlend::finish(int end) {
  const std::array<Tiling::Axis, 3>& axes = tiling_.axes();
  const int size = held_.extents()[axis_], done = end - held_.begin[axis_];
  const long row = held_.pixels() / size * width_;  // values of one pixel of the axis
  constexpr long values_at_once = 1L << 20;
  const int rows_at_once = static_cast<int>(std::clamp(values_at_once / row, 1L, static_cast<long>(size)));
  const Shape held = part_of(tiling_.image(), held_);
  Box part = held_;
  for (int begin = held_.begin[axis_]; begin < end; begin += rows_at_once) {
    part.begin[axis_] = begin;
    part.end[axis_] = std::min(end, begin + rows_at_once);
    predictions_.resize(static_cast<std::size_t>(part.pixels() * width_));
    float* prediction = predictions_.data();
    for (int z = part.begin[0]; z < part.end[0]; ++z) {
      for (int y = part.begin[1]; y < part.end[1]; ++y) {
        const long pixel = (static_cast<long>(z - held_.begin[0]) * held.height + y - held_.begin[1]) * held.width +
                           part.begin[2] - held_.begin[2];
        const double* sum = sums_.data() + pixel * width_;
        for (int x = part.begin[2]; x < part.end[2]; ++x) {
          const double whole = axes[0].sums[z] * axes[1].sums[y] * axes[2].sums[x];
          for (int k = 0; k < width_; ++k) *prediction++ = static_cast<float>(*sum++ / whole);
        }
      }
    }
    finished_(part, predictions_);
  }
  const std::array<int, 3> extents = held_.extents();
  long inner = width_;
  for (int i = axis_ + 1; i < 3; ++i) inner *= extents[i];
  for (auto layer = sums_.begin(); layer != sums_.end(); layer += size * inner)
    std::fill(std::move(layer + done * inner, layer + size * inner, layer), layer + size * inner, 0.0);
  held_.begin[axis_] += done;
  held_.end[axis_] += done;
}

}  // namespace halograd
