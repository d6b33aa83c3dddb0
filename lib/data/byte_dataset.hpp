#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace halograd {

/// Images kept in memory as 8-bit values 0..255: a quarter of what floats would take, converted as they are read.
class ByteDataset final : public Dataset {
 public:
  /// images (N, H, W, C); labels (N) in 0..classes-1, or none.
  ByteDataset(ImageShape shape, int classes, std::vector<std::uint8_t> images, std::vector<std::int32_t> labels);
  [[nodiscard]] long size() const override { return size_; }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return classes_; }
  [[nodiscard]] long labels_per_image() const override { return labels_.empty() ? 0 : 1; }
  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override;

 private:
  ImageShape shape_;
  int classes_;
  long size_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int32_t> labels_;
};

/// floats[i] = bytes[i] / maximum for i in 0..count-1.
void bytes_to_floats(const std::uint8_t* bytes, long count, float maximum, float* floats);

/// Throws Error unless 0 <= index < size.
void require_index(long index, long size);

/// What the labels of a training set say of its classes where the file itself does not.
struct LabelScan {
  int classes =
      0;  ///< the classes 0..classes-1 follow each other without a gap; 0 itself may be unused (EMNIST letters)
  long first_beyond = -1;  ///< position of the first label beyond that gap; -1: none
};

/// Finds how many classes labels >= 0 speak of. A label beyond a gap is a broken file rather than a class: a single
/// wrong byte must not widen the network's last layer.
LabelScan scan_labels(std::span<const std::int32_t> labels);

}  // namespace halograd
