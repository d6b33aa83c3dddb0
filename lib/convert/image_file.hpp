#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace halograd {

/// An 8-bit image (height, width, channels), channels 1 (grey) or 3 (red, green, blue).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> values;
};

/// Whether the name ends as those of PNG and JPEG files do.
bool is_image_name(const std::filesystem::path& path);

/// Decodes a PNG or JPEG file, told apart by its first bytes: 16-bit values are cut to 8 bits, palettes looked up,
/// transparent parts laid on white. Throws Error naming the file where it is neither, is cut short or damaged, or where
/// this halograd was built without libpng and libjpeg-turbo.
Image read_image(const std::filesystem::path& path);

/// With one channel (0.299 R + 0.587 G + 0.114 B, ITU-R BT.601) or three (grey repeated).
Image with_channels(const Image& image, int channels);

/// Stretched to height x width: along an axis that shrinks each value is the mean over the area it covers, along one
/// that grows it is interpolated linearly between the centres of pixels.
Image resized(const Image& image, int height, int width);

}  // namespace halograd
