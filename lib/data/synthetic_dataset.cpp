#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

/// A plane wave per class and channel, half of an image's contrast, under uniform noise, the other half.
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
      add_wave(planes_, shape.depth, 0.0,
               1 + 2 * random_uniform(random_bits(key_, 0), static_cast<std::uint64_t>(wave)));
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

  /// The sum of two angles.
  static Point product(Point a, Point b) {
    return {a.cosine * b.cosine - a.sine * b.sine, a.sine * b.cosine + a.cosine * b.sine};
  }

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
      const Point* columns = columns_.data() + wave * shape_.width;
      for (long line = 0; line < static_cast<long>(shape_.depth) * shape_.height; ++line) {
        const Point row = product(planes_[static_cast<std::size_t>(wave * shape_.depth + line / shape_.height)],
                                  rows_[static_cast<std::size_t>(wave * shape_.height + line % shape_.height)]);
        for (int x = 0; x < shape_.width; ++x) {
          const long at = (line * shape_.width + x) * shape_.channels + channel;
          const float pattern = product(row, columns[x]).cosine;
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
  std::vector<Point> planes_;   // (classes, channels, depth)
  std::vector<Point> rows_;     // (classes, channels, height)
  std::vector<Point> columns_;  // (classes, channels, width)
};

/// The extents and channels that data.synthetic_shape gives.
ImageShape shape_of(const DataConfig& config) {
  const std::vector<int>& given = config.synthetic_shape;
  std::string text;
  for (const int number : given) {
    if (!text.empty()) text += ", ";
    text += std::to_string(number);
  }
  const bool positive = std::all_of(given.begin(), given.end(), [](int number) { return number > 0; });
  HALOGRAD_REQUIRE(given.size() >= 2 && given.size() <= 4 && positive, "data.synthetic_shape is [", text,
                   "], expected one to three extents and the channels, each at least 1");
  const int axes = static_cast<int>(given.size()) - 1;
  std::array<int, 3> extents{1, 1, 1};
  std::copy_n(given.begin(), axes, extents.end() - axes);
  return {extents, given.back(), axes};
}

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const DataConfig& config, Split split, std::uint64_t seed) {
  const Shape shape = shape_of(config);
  const int size = split == Split::train ? config.synthetic_train : config.synthetic_test;
  HALOGRAD_REQUIRE(config.synthetic_classes > 0, "data.synthetic_classes is ", config.synthetic_classes,
                   ", expected at least 1");
  HALOGRAD_REQUIRE(size > 0, split == Split::train ? "data.synthetic_train" : "data.synthetic_test", " is ", size,
                   ", expected at least 1");
  return row_of(synthetic_labels(), config.synthetic_labels, "data.synthetic_labels")
      .make(shape, config.synthetic_classes, size, split, seed);
}

const std::vector<SyntheticLabels>& synthetic_labels() {
  static const std::vector<SyntheticLabels> labels{{"image",
                                                    [](const ImageShape& shape, int classes, long size, Split split,
                                                       std::uint64_t seed) -> std::unique_ptr<Dataset> {
                                                      return std::make_unique<SyntheticDataset>(shape, classes, size,
                                                                                                split, seed);
                                                    }},
                                                   {"pixel", make_synthetic_volumes}};
  return labels;
}

}  // namespace halograd
