#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace halograd {

/// How one training image is altered: out(y, x) = in(y + down, x + right) in every plane, zero outside the
/// image, then mirrored.
struct Augmentation {
  int down = 0;   ///< -pad..pad
  int right = 0;  ///< -pad..pad
  bool mirror = false;
  bool operator==(const Augmentation&) const = default;
};

/// The draw of one image in one epoch, a function of the arguments alone: the offset of a crop from the image padded by
/// pad_crop zeros on every side, each equally likely, and, where flip is set, a mirroring in one of two cases.
Augmentation draw_augmentation(std::uint64_t seed, long epoch, long image, int pad_crop, bool flip);

/// Applies it: image and out ([D, [H,]] W, C), not overlapping. Of float, or of labels, whose padding is label 0.
template <class T>
void augment(const T* image, ImageShape shape, const Augmentation& augmentation, T* out);

/// Takes (value - mean) / standard deviation per channel.
class Normalisation {
 public:
  /// Per channel; empty: mean 0, standard deviation 1. Throws Error where the number of values is not that of the
  /// channels, or a value is unfit.
  Normalisation(ImageShape shape, const std::vector<double>& mean, const std::vector<double>& standard_deviation);
  /// In place on images (count, H, W, C).
  void apply(float* images, long count) const;

 private:
  bool identity_;
  long rows_;  // of an image
  // Repeated over a row of an image, so that the inner loop vectorises whatever the number of channels.
  std::vector<float> mean_;
  std::vector<float> standard_deviation_;
};

}  // namespace halograd
