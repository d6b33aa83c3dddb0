#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace halograd {

/// The PNG and JPEG files anywhere below a folder, in the order of their paths, without labels: each is decoded when it
/// is read, so that there may be any number of them.
class ImageFolder final : public Dataset {
 public:
  /// All images are brought to `channels` (1 or 3) and, where `height` is not 0, stretched to height x width; else they
  /// have to be as large as the first. Throws Error where there are none, or the first cannot be read.
  ImageFolder(const std::filesystem::path& folder, int channels, int height = 0, int width = 0);

  [[nodiscard]] long size() const override { return static_cast<long>(names_.size()); }
  [[nodiscard]] ImageShape shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return 0; }
  [[nodiscard]] long labels_per_image() const override { return 0; }
  [[nodiscard]] bool in_memory() const override { return false; }
  /// Throws Error naming the file that is broken or of another size.
  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override;

  /// The paths of the images from the folder on.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  bool stretched_;
  ImageShape shape_;
};

}  // namespace halograd
