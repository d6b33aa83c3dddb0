#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "config/config.hpp"

namespace halograd {

/// Extents of one image; stored H, W, C with channels fastest.
struct ImageShape {
  int height = 0;
  int width = 0;
  int channels = 0;
  [[nodiscard]] long values() const { return static_cast<long>(height) * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

/// A set of labelled images. Implementations read IDX, CIFAR binary and HDF5 files, or make synthetic images.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual long size() const = 0;
  [[nodiscard]] virtual ImageShape shape() const = 0;
  [[nodiscard]] virtual int classes() const = 0;
  /// Reads the images at `indices`, in that order: images (indices.size(), H, W, C) in 0..1 (8-bit values over their
  /// largest), labels (indices.size()). Safe to call from one thread at a time. Throws Error on a broken file.
  virtual void read(std::span<const long> indices, float* images, std::int32_t* labels) const = 0;
};

enum class Split { train, test };

/// The one place that knows the formats. Throws Error naming the file, offset, what was found and expected.
std::unique_ptr<Dataset> open_dataset(const DataConfig& config, Split split, std::uint64_t seed);

}  // namespace halograd
