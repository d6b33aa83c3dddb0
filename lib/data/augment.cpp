#include "data/augment.hpp"

#include <algorithm>
#include <cmath>

#include "data/sharding.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {

Augmentation draw_augmentation(std::uint64_t seed, long epoch, long image, int pad_crop, bool flip) {
  constexpr std::uint64_t stream = 0x6175676d656e74;  // "augment": draws of its own
  const std::uint64_t epoch_key = random_bits(random_bits(seed, stream), static_cast<std::uint64_t>(epoch));
  const std::uint64_t key = random_bits(epoch_key, static_cast<std::uint64_t>(image));
  const std::uint64_t offsets = 2 * static_cast<std::uint64_t>(pad_crop) + 1;
  Augmentation draw;
  draw.down = static_cast<int>(bounded(random_bits(key, 0), offsets)) - pad_crop;
  draw.right = static_cast<int>(bounded(random_bits(key, 1), offsets)) - pad_crop;
  draw.mirror = flip && bounded(random_bits(key, 2), 2) == 1;
  return draw;
}

template <class T>
void augment(const T* image, ImageShape shape, const Augmentation& augmentation, T* out) {
  const int channels = shape.channels;
  const long row_values = static_cast<long>(shape.width) * channels;
  // The columns of a row of `out` that lie inside the image.
  const int begin = std::clamp(-augmentation.right, 0, shape.width);
  const int end = std::clamp(shape.width - augmentation.right, begin, shape.width);
  for (long line = 0; line < static_cast<long>(shape.depth) * shape.height; ++line) {
    T* row = out + line * row_values;
    const long from = line % shape.height + augmentation.down;
    if (from < 0 || from >= shape.height || begin == end) {
      std::fill_n(row, row_values, T(0));
      continue;
    }
    const T* source = image + (line / shape.height * shape.height + from) * row_values +
                      static_cast<long>(begin + augmentation.right) * channels;
    std::fill(row, row + static_cast<long>(begin) * channels, T(0));
    std::copy_n(source, static_cast<long>(end - begin) * channels, row + static_cast<long>(begin) * channels);
    std::fill(row + static_cast<long>(end) * channels, row + row_values, T(0));
    if (!augmentation.mirror) continue;
    for (int left = 0, right = shape.width - 1; left < right; ++left, --right)
      std::swap_ranges(row + left * channels, row + (left + 1) * channels, row + right * channels);
  }
}

template void augment<float>(const float*, ImageShape, const Augmentation&, float*);
template void augment<std::int32_t>(const std::int32_t*, ImageShape, const Augmentation&, std::int32_t*);

Normalisation::Normalisation(ImageShape shape, const std::vector<double>& mean,
                             const std::vector<double>& standard_deviation)
    : identity_(mean.empty() && standard_deviation.empty()), rows_(static_cast<long>(shape.depth) * shape.height) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  HALOGRAD_REQUIRE(mean.empty() || mean.size() == channels, "data.mean has ", mean.size(),
                   " values, expected one for each of the images' ", channels, " channels");
  HALOGRAD_REQUIRE(standard_deviation.empty() || standard_deviation.size() == channels, "data.standard_deviation has ",
                   standard_deviation.size(), " values, expected one for each of the images' ", channels, " channels");
  for (const double value : mean) HALOGRAD_REQUIRE(std::isfinite(value), "data.mean holds ", value);
  for (const double value : standard_deviation)
    HALOGRAD_REQUIRE(std::isfinite(value) && value > 0, "data.standard_deviation holds ", value,
                     ", expected positive numbers");
  for (std::size_t i = 0; i < channels * static_cast<std::size_t>(shape.width); ++i) {
    mean_.push_back(mean.empty() ? 0.0F : static_cast<float>(mean[i % channels]));
    standard_deviation_.push_back(standard_deviation.empty() ? 1.0F
                                                             : static_cast<float>(standard_deviation[i % channels]));
  }
}

void Normalisation::apply(float* images, long count) const {
  if (identity_) return;
  const long values = static_cast<long>(mean_.size());
  const float* mean = mean_.data();
  const float* deviation = standard_deviation_.data();
  for (long row = 0; row < count * rows_; ++row) {
    float* value = images + row * values;
    for (long i = 0; i < values; ++i) value[i] = (value[i] - mean[i]) / deviation[i];
  }
}

}  // namespace halograd
