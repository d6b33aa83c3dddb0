#include "convert/image_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>

#include "kernels/error.hpp"

#ifdef HALOGRAD_HAS_IMAGES
#include <png.h>
#include <turbojpeg.h>
#endif

namespace halograd {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file.is_open(), path.string(), ": cannot be opened for reading");
  Bytes bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  HALOGRAD_REQUIRE(!bytes.empty(), path.string(), ": is empty");
  return bytes;
}

#ifdef HALOGRAD_HAS_IMAGES

Image sized(long height, long width, int channels, const Bytes& bytes, const fs::path& path) {
  // Deflate packs at most 1032 to 1, and of a byte of PNG come up to 8 pixels of a palette; JPEG packs less. A damaged
  // header is found before memory is taken for what it claims.
  constexpr long most_packed = 1032L * 8 * 3;
  const long most_values =
      std::min<long>(std::numeric_limits<int>::max(), most_packed * static_cast<long>(bytes.size()));
  HALOGRAD_REQUIRE(height > 0 && width > 0 && height <= most_values / (width * channels), path.string(),
                   ": an image of ", height, " x ", width, " pixels, which a file of ", bytes.size(),
                   " bytes cannot hold");
  Image image{static_cast<int>(height), static_cast<int>(width), channels, {}};
  image.values.resize(static_cast<std::size_t>(height * width * channels));
  return image;
}

Image read_png(const Bytes& bytes, const fs::path& path) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> guard(&png, png_image_free);
  HALOGRAD_REQUIRE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) != 0, path.string(),
                   ": not a complete PNG file: ", png.message);
  const bool colour = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image = sized(png.height, png.width, colour ? 3 : 1, bytes, path);
  const png_color white{255, 255, 255};
  const bool read = png_image_finish_read(&png, &white, image.values.data(), 0, nullptr) != 0;
  // A damaged end of the file is only a warning to libpng.
  HALOGRAD_REQUIRE(read && (png.warning_or_error & PNG_IMAGE_ERROR) == 0, path.string(), ": damaged: ", png.message);
  return image;
}

Image read_jpeg(const Bytes& bytes, const fs::path& path) {
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  HALOGRAD_REQUIRE(decoder != nullptr, path.string(), ": libjpeg-turbo does not start: ", tjGetErrorStr2(nullptr));
  int width = 0, height = 0, sampling = 0, colours = 0;
  const auto length = static_cast<unsigned long>(bytes.size());
  HALOGRAD_REQUIRE(
      tjDecompressHeader3(decoder.get(), bytes.data(), length, &width, &height, &sampling, &colours) == 0 &&
          width > 0 && height > 0,
      path.string(), ": not a complete JPEG file: ", tjGetErrorStr2(decoder.get()));
  const bool grey = colours == TJCS_GRAY;
  Image image = sized(height, width, grey ? 1 : 3, bytes, path);
  HALOGRAD_REQUIRE(tjDecompress2(decoder.get(), bytes.data(), length, image.values.data(), width, 0, height,
                                 grey ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) == 0,
                   path.string(), ": damaged: ", tjGetErrorStr2(decoder.get()));
  return image;
}

Image decode(const Bytes& bytes, const fs::path& path) {
  constexpr std::array<std::uint8_t, 4> png{0x89, 'P', 'N', 'G'};
  constexpr std::array<std::uint8_t, 3> jpeg{0xff, 0xd8, 0xff};
  const auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (begins_with(png)) return read_png(bytes, path);
  if (begins_with(jpeg)) return read_jpeg(bytes, path);
  fail(path.string(), ": is neither a PNG nor a JPEG file (by its first bytes)");
}

#else

Image decode(const Bytes& /*bytes*/, const fs::path& path) {
  fail(path.string(),
       ": this halograd was built without libpng and libjpeg-turbo, which image files need; install "
       "both with their development files and configure again");
}

#endif

/// One value along an axis: the weighted values from `first` on.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(int from, int to) {
  std::vector<Taps> all(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    Taps& taps = all[static_cast<std::size_t>(i)];
    if (from > to) {
      const double begin = i * scale, end = std::min<double>(from, begin + scale);
      taps.first = static_cast<int>(begin);
      for (int at = taps.first; at < from && at < end; ++at)
        taps.weights.push_back(
            static_cast<float>((std::min<double>(at + 1, end) - std::max<double>(at, begin)) / scale));
    } else {
      const double centre = std::clamp((i + 0.5) * scale - 0.5, 0.0, from - 1.0);
      taps.first = std::min(static_cast<int>(centre), std::max(0, from - 2));
      const auto right = static_cast<float>(centre - taps.first);
      taps.weights = from == 1 ? std::vector<float>{1.0F} : std::vector<float>{1.0F - right, right};
    }
  }
  return all;
}

}  // namespace

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

Image read_image(const fs::path& path) {
  return decode(bytes_of(path), path);
}

Image with_channels(const Image& image, int channels) {
  if (image.channels == channels) return image;
  Image out{image.height, image.width, channels, {}};
  const std::size_t pixels = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  out.values.resize(pixels * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < pixels; ++i) {
    if (channels == 1) {
      const std::uint8_t* rgb = image.values.data() + 3 * i;
      out.values[i] = static_cast<std::uint8_t>(std::lround(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]));
    } else {
      std::fill_n(out.values.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, image.values[i]);
    }
  }
  return out;
}

Image resized(const Image& image, int height, int width) {
  if (image.height == height && image.width == width) return image;
  const std::vector<Taps> rows = taps_of(image.height, height), columns = taps_of(image.width, width);
  Image out{height, width, image.channels, {}};
  const long channels = image.channels, from = image.width * channels;
  out.values.reserve(static_cast<std::size_t>(height) * static_cast<std::size_t>(width * channels));
  std::vector<float> line(static_cast<std::size_t>(from));
  for (const Taps& row : rows) {
    std::fill(line.begin(), line.end(), 0.0F);
    for (std::size_t i = 0; i < row.weights.size(); ++i) {
      const std::uint8_t* values = image.values.data() + (row.first + static_cast<long>(i)) * from;
      for (long j = 0; j < from; ++j)
        line[static_cast<std::size_t>(j)] += row.weights[i] * static_cast<float>(values[j]);
    }
    for (const Taps& column : columns) {
      for (long channel = 0; channel < channels; ++channel) {
        float value = 0;
        for (std::size_t i = 0; i < column.weights.size(); ++i)
          value += column.weights[i] *
                   line[static_cast<std::size_t>((column.first + static_cast<long>(i)) * channels + channel)];
        out.values.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)));
      }
    }
  }
  return out;
}

}  // namespace halograd
