#include "data/byte_dataset.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"

namespace halograd {

ByteDataset::ByteDataset(ImageShape shape, int classes, std::vector<std::uint8_t> images,
                         std::vector<std::int32_t> labels)
    : shape_(shape),
      classes_(classes),
      size_(labels.empty() ? static_cast<long>(images.size()) / shape.values() : static_cast<long>(labels.size())),
      images_(std::move(images)),
      labels_(std::move(labels)) {
  HALOGRAD_REQUIRE(static_cast<long>(images_.size()) == size() * shape_.values(), "a set of ", size(), " images of ",
                   shape_.values(), " values each cannot hold ", images_.size(), " values");
}

void ByteDataset::read(std::span<const long> indices, float* images, std::int32_t* labels) const {
  const long values = shape_.values();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    require_index(indices[i], size());
    bytes_to_floats(images_.data() + indices[i] * values, values, 255.0F, images + static_cast<long>(i) * values);
    if (!labels_.empty()) labels[i] = labels_[static_cast<std::size_t>(indices[i])];
  }
}

void bytes_to_floats(const std::uint8_t* bytes, long count, float maximum, float* floats) {
  for (long i = 0; i < count; ++i) floats[i] = static_cast<float>(bytes[i]) / maximum;
}

void require_index(long index, long size) {
  HALOGRAD_REQUIRE(index >= 0 && index < size, "image ", index, " was asked for, the set holds 0..", size - 1);
}

LabelScan scan_labels(std::span<const std::int32_t> labels) {
  std::vector<std::int32_t> used(labels.begin(), labels.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  LabelScan scan;
  if (used.empty()) return scan;
  scan.classes = used.front() <= 1 ? used.front() : 0;
  for (const std::int32_t label : used) {
    if (label != scan.classes) break;
    ++scan.classes;
  }
  const auto beyond =
      std::find_if(labels.begin(), labels.end(), [&](std::int32_t label) { return label >= scan.classes; });
  if (beyond != labels.end()) scan.first_beyond = beyond - labels.begin();
  return scan;
}

}  // namespace halograd
