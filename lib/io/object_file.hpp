#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/model_origin.hpp"

namespace halograd {

/// What a file of objects says of itself, in attributes.
struct ObjectFileHeader : ModelOrigin {
  std::vector<std::uint64_t> extents;  ///< (N, [D, [H,]] W)
};

/// A file of labelled images (docs/file-formats.md), written by one process: as `path`.partial, which publish()
/// renames; without it, the partial file is removed at the end.
class ObjectFile {
 public:
  /// Throws Error, as the others do.
  ObjectFile(std::string path, const ObjectFileHeader& header);
  ~ObjectFile();
  ObjectFile(const ObjectFile&) = delete;
  ObjectFile& operator=(const ObjectFile&) = delete;

  /// The labels of pixels [begin, begin + n) along the first axis of image `image`.
  void write(std::uint64_t image, int begin, std::span<const std::uint32_t> labels) const;
  void publish();

 private:
  std::string path_, partial_;
  std::vector<std::uint64_t> extents_;
  bool published_ = false;
};

}  // namespace halograd
