#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

constexpr int side = 32;
constexpr int channels = 3;
constexpr int image_pixels = side * side;
constexpr int coarse_classes = 20;

/// Appends the records of one file: labels (CIFAR-10: class; CIFAR-100: coarse and fine class), then one plane a
/// channel.
void append(const fs::path& path, int classes, std::vector<std::uint8_t>& images, std::vector<std::int32_t>& labels) {
  const std::size_t label_bytes = classes == 10 ? 1 : 2;
  const std::size_t record_bytes = label_bytes + channels * image_pixels;
  std::ifstream stream(path, std::ios::binary);
  HALOGRAD_REQUIRE(stream.is_open(), path.string(), ": cannot be opened for reading");
  const auto bytes = static_cast<std::size_t>(fs::file_size(path));
  HALOGRAD_REQUIRE(bytes > 0 && bytes % record_bytes == 0, path.string(), ": holds ", bytes,
                   " bytes, expected a multiple of ", record_bytes,
                   " (one record); the last whole record ends at offset ", bytes / record_bytes * record_bytes);

  const std::size_t count = bytes / record_bytes;
  const std::size_t first = labels.size();
  labels.resize(first + count);
  images.resize((first + count) * channels * image_pixels);
  std::vector<std::uint8_t> record(record_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    stream.read(reinterpret_cast<char*>(record.data()), static_cast<std::streamsize>(record_bytes));
    HALOGRAD_REQUIRE(stream.good(), path.string(), ": cannot read record ", i, " at offset ", i * record_bytes);
    const int label = record[label_bytes - 1];
    HALOGRAD_REQUIRE(label < classes, path.string(), ": label at offset ", i * record_bytes + label_bytes - 1, " is ",
                     label, ", expected one in 0..", classes - 1);
    HALOGRAD_REQUIRE(label_bytes == 1 || record[0] < coarse_classes, path.string(), ": coarse label at offset ",
                     i * record_bytes, " is ", int{record[0]}, ", expected one in 0..", coarse_classes - 1);
    labels[first + i] = label;
    const std::uint8_t* planes = record.data() + label_bytes;
    std::uint8_t* image = images.data() + (first + i) * channels * image_pixels;
    for (int pixel = 0; pixel < image_pixels; ++pixel)
      for (int channel = 0; channel < channels; ++channel)
        image[pixel * channels + channel] = planes[channel * image_pixels + pixel];
  }
}

}  // namespace

std::unique_ptr<Dataset> open_cifar(const fs::path& folder, Split split, int classes) {
  const bool small = classes == 10;
  const char* hint = small ? "expected a folder that holds data_batch_1.bin to data_batch_5.bin and test_batch.bin "
                             "(cifar-10-batches-bin in the archive of CIFAR-10's binary version)"
                           : "expected a folder that holds train.bin and test.bin "
                             "(cifar-100-binary in the archive of CIFAR-100's binary version)";
  HALOGRAD_REQUIRE(fs::is_directory(folder), "data.path: ", folder.string(), ": ",
                   fs::exists(folder) ? "is not a folder" : "no such folder", ", ", hint);
  std::vector<std::string> names;
  if (split == Split::test) {
    names = {small ? "test_batch.bin" : "test.bin"};
  } else if (small) {
    for (int i = 1; i <= 5; ++i) names.push_back("data_batch_" + std::to_string(i) + ".bin");
  } else {
    names = {"train.bin"};
  }
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> labels;
  std::size_t bytes = 0;
  for (const std::string& name : names) {
    HALOGRAD_REQUIRE(fs::is_regular_file(folder / name), (folder / name).string(), ": no such file, ", hint);
    bytes += static_cast<std::size_t>(fs::file_size(folder / name));
  }
  images.reserve(bytes);
  for (const std::string& name : names) append(folder / name, classes, images, labels);
  return std::make_unique<ByteDataset>(ImageShape{side, side, channels}, classes, std::move(images), std::move(labels));
}

bool is_cifar_folder(const fs::path& folder, int classes) {
  if (classes == 10) return fs::exists(folder / "data_batch_1.bin");
  return fs::exists(folder / "train.bin") && fs::exists(folder / "test.bin");
}

}  // namespace halograd
