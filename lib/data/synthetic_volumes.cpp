#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

using Point = std::array<double, 3>;

/// Bright tubes under noise, of which each pixel is to be told whether it lies in one: pixels of a tube have brightness
/// 0.65, others 0.35, and uniform noise of +- 0.35 hides the single pixel.
class SyntheticVolumes final : public Dataset {
 public:
  SyntheticVolumes(ImageShape shape, long size, Split split, std::uint64_t seed) : shape_(shape), size_(size) {
    const std::uint64_t key = random_bits(random_bits(seed, 0x7475626573ULL), 0);  // "tubes": draws of its own
    key_ = random_bits(key, split == Split::train ? 1 : 2);
  }

  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return 2; }
  [[nodiscard]] long labels_per_image() const override { return shape_.pixels(); }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      require_index(indices[i], size_);
      const long image = static_cast<long>(i);
      make_volume(indices[i], images + image * shape_.values(), labels + image * shape_.pixels());
    }
  }

 private:
  struct Tube {
    Point from, direction;
    double length_squared, radius_squared;
    /// Whether a point lies no further from the tube's axis than its radius.
    [[nodiscard]] bool holds(const Point& point) const {
      double along = 0;
      for (int axis = 0; axis < 3; ++axis) along += (point[axis] - from[axis]) * direction[axis];
      const double share = std::clamp(along / length_squared, 0.0, 1.0);
      double distance = 0;
      for (int axis = 0; axis < 3; ++axis) distance += std::pow(point[axis] - from[axis] - share * direction[axis], 2);
      return distance <= radius_squared;
    }
  };

  /// A tube between two random points of the volume.
  [[nodiscard]] Tube draw_tube(std::uint64_t key) const {
    const std::array<int, 3> extents = shape_.extents();
    Tube tube{};
    double smallest = 1e9;
    tube.length_squared = 1e-9;
    for (int axis = 0; axis < 3; ++axis) {
      const double from = random_uniform(key, 2UL * axis), to = random_uniform(key, 2UL * axis + 1);
      tube.from[axis] = from * (extents[axis] - 1);
      tube.direction[axis] = (to - from) * (extents[axis] - 1);
      tube.length_squared += tube.direction[axis] * tube.direction[axis];
      if (extents[axis] > 1) smallest = std::min<double>(smallest, extents[axis]);
    }
    const double radius = smallest > 1e8 ? 1 : 0.8 + (0.04 + 0.08 * random_uniform(key, 6)) * smallest;
    tube.radius_squared = radius * radius;
    return tube;
  }

  void make_volume(long index, float* image, std::int32_t* labels) const {
    const std::uint64_t key = random_bits(key_, static_cast<std::uint64_t>(index));
    const std::array<Tube, 3> tubes{draw_tube(random_bits(key, 1)), draw_tube(random_bits(key, 2)),
                                    draw_tube(random_bits(key, 3))};
    const std::uint64_t noise = random_bits(key, 4);
    for (long pixel = 0; pixel < shape_.pixels(); ++pixel) {
      const long row = pixel / shape_.width, slice = row / shape_.height;
      const Point point{static_cast<double>(slice), static_cast<double>(row % shape_.height),
                        static_cast<double>(pixel % shape_.width)};
      const bool inside = std::any_of(tubes.begin(), tubes.end(), [&](const Tube& tube) { return tube.holds(point); });
      labels[pixel] = inside ? 1 : 0;
      for (int channel = 0; channel < shape_.channels; ++channel) {
        const long at = pixel * shape_.channels + channel;
        const auto draw = static_cast<float>(random_uniform(noise, static_cast<std::uint64_t>(at)));
        image[at] = (inside ? 0.3F : 0.0F) + 0.7F * draw;
      }
    }
  }

  ImageShape shape_;
  long size_;
  std::uint64_t key_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic_volumes(const ImageShape& shape, int /*classes*/, long size, Split split,
                                                std::uint64_t seed) {
  return std::make_unique<SyntheticVolumes>(shape, size, split, seed);
}

}  // namespace halograd
