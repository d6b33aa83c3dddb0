#include "train/tiles.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace halograd {

Tiling::Tiling(const Shape& image, const Shape& tile, double overlap) : image_(image), tile_(tile) {
  const std::array<int, 3> lengths = image.extents(), sizes = tile.extents();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const int length = lengths[axis], size = sizes[axis];
    HALOGRAD_REQUIRE(length >= size && image.channels == tile.channels && image.dimensions == tile.dimensions,
                     "an image of ", to_string(image), " cannot be cut into tiles of ", to_string(tile));
    const int step = std::max(1, static_cast<int>(std::floor((1 - overlap) * size)));
    const int gaps = (length - size + step - 1) / step;
    for (int i = 0; i <= gaps; ++i)
      begins_[axis].push_back(static_cast<int>(static_cast<long>(i) * (length - size) / std::max(1, gaps)));
    for (int i = 0; i < size; ++i) weights_[axis].push_back(std::min(i + 1, size - i));
  }
  whole_.resize(static_cast<std::size_t>(image.pixels()));
  for (long each = 0; each < tiles(); ++each) {
    for_each_row(each, [&](long /*from*/, long to, double weight) {
      for (int x = 0; x < tile_.width; ++x)
        whole_[static_cast<std::size_t>(to + x)] += weight * weights_[2][static_cast<std::size_t>(x)];
    });
  }
}

long Tiling::tiles() const {
  return static_cast<long>(begins_[0].size() * begins_[1].size() * begins_[2].size());
}

template <class Body>
void Tiling::for_each_row(long tile, const Body& body) const {
  const auto columns = static_cast<long>(begins_[2].size()), rows = static_cast<long>(begins_[1].size());
  const int left = begins_[2][static_cast<std::size_t>(tile % columns)];
  const int top = begins_[1][static_cast<std::size_t>(tile / columns % rows)];
  const int front = begins_[0][static_cast<std::size_t>(tile / columns / rows)];
  for (int z = 0; z < tile_.depth; ++z) {
    for (int y = 0; y < tile_.height; ++y) {
      const long from = (static_cast<long>(z) * tile_.height + y) * tile_.width;
      const long to = ((static_cast<long>(front) + z) * image_.height + top + y) * image_.width + left;
      body(from, to, weights_[0][static_cast<std::size_t>(z)] * weights_[1][static_cast<std::size_t>(y)]);
    }
  }
}

void Tiling::cut(std::span<const float> image, long tile, float* out) const {
  const long channels = tile_.channels;
  for_each_row(tile, [&](long to, long from, double /*weight*/) {
    std::copy_n(image.data() + from * channels, tile_.width * channels, out + to * channels);
  });
}

void Tiling::add(std::span<const float> predictions, long tile, int width, std::span<double> sums) const {
  for_each_row(tile, [&](long from, long to, double row_weight) {
    const float* value = predictions.data() + from * width;
    double* sum = sums.data() + to * width;
    for (const double along : weights_[2]) {
      for (int k = 0; k < width; ++k) *sum++ += row_weight * along * static_cast<double>(*value++);
    }
  });
}

void Tiling::finish(std::span<const double> sums, int width, std::span<float> predictions) const {
  for (std::size_t i = 0; i < sums.size(); ++i)
    predictions[i] = static_cast<float>(sums[i] / whole_[i / static_cast<std::size_t>(width)]);
}

}  // namespace halograd
