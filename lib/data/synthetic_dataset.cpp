#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

/// A plane wave a class and channel, half of an image's contrast, under uniform noise, the other half.
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(ImageShape shape, int classes, long size, Split split, std::uint64_t seed)
      : shape_(shape), classes_(classes), size_(size), key_(random_bits(random_bits(seed, 0x73796e7468ULL), 0)) {
    noise_key_ = random_bits(key_, split == Split::train ? 1 : 2);
    for (int wave = 0; wave < classes * shape.channels; ++wave) {
      const auto draw = [&](int i) { return 2 * std::numbers::pi * random_uniform(key_, 3 + 3ULL * wave + i); };
      // One to three periods over the image: coarse enough for a small kernel and a pooling layer to keep.
      const double phase = draw(0);
      add_wave(rows_, shape.height, phase, 1 + draw(1) / std::numbers::pi);
      add_wave(columns_, shape.width, 0.0, 1 + draw(2) / std::numbers::pi);
    }
  }

  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return classes_; }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      require_index(indices[i], size_);
      labels[i] = static_cast<std::int32_t>(indices[i] % classes_);
      make_image(indices[i], labels[i], images + static_cast<long>(i) * shape_.values());
    }
  }

 private:
  struct Point {
    float cosine, sine;
  };

  static void add_wave(std::vector<Point>& points, int extent, double phase, double periods) {
    for (int i = 0; i < extent; ++i) {
      const double angle = phase + 2 * std::numbers::pi * periods * i / extent;
      points.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
  }

  void make_image(long index, int label, float* image) const {
    const std::uint64_t key = random_bits(noise_key_, static_cast<std::uint64_t>(index));
    for (int channel = 0; channel < shape_.channels; ++channel) {
      const long wave = static_cast<long>(label) * shape_.channels + channel;
      for (int y = 0; y < shape_.height; ++y) {
        const Point row = rows_[static_cast<std::size_t>(wave * shape_.height + y)];
        const Point* columns = columns_.data() + wave * shape_.width;
        for (int x = 0; x < shape_.width; ++x) {
          const long at = (static_cast<long>(y) * shape_.width + x) * shape_.channels + channel;
          const float pattern = row.cosine * columns[x].cosine - row.sine * columns[x].sine;
          image[at] = 0.25F * (1.0F + pattern) + 0.5F * random_uniform(key, static_cast<std::uint64_t>(at));
        }
      }
    }
  }

  ImageShape shape_;
  int classes_;
  long size_;
  std::uint64_t key_;
  std::uint64_t noise_key_ = 0;
  std::vector<Point> rows_;     // (classes, channels, height)
  std::vector<Point> columns_;  // (classes, channels, width)
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const DataConfig& config, Split split, std::uint64_t seed) {
  const auto [height, width, channels] = config.synthetic_shape;
  const int size = split == Split::train ? config.synthetic_train : config.synthetic_test;
  HALOGRAD_REQUIRE(height > 0 && width > 0 && channels > 0, "data.synthetic_shape is [", height, ", ", width, ", ",
                   channels, "], expected positive extents (height, width, channels)");
  HALOGRAD_REQUIRE(config.synthetic_classes > 0, "data.synthetic_classes is ", config.synthetic_classes,
                   ", expected at least 1");
  HALOGRAD_REQUIRE(size > 0, split == Split::train ? "data.synthetic_train" : "data.synthetic_test", " is ", size,
                   ", expected at least 1");
  return std::make_unique<SyntheticDataset>(ImageShape{height, width, channels}, config.synthetic_classes, size, split,
                                            seed);
}

}  // namespace halograd
