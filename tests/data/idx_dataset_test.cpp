#include <gtest/gtest.h>
#include <zlib.h>

#include "data/data_files.hpp"
#include "data/dataset.hpp"

namespace halograd::idx_dataset_test {
namespace {

using test::Bytes;
using test::expect_error;
using test::Folder;
using test::write_bytes;

Bytes idx(std::uint8_t dimensions, const std::vector<std::uint32_t>& extents, const Bytes& values) {
  Bytes bytes = {0, 0, 8, dimensions};
  for (const std::uint32_t extent : extents)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes ramp(std::size_t count, int start = 0) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(start + 7 * i);
  return bytes;
}

void write_gzip(const std::filesystem::path& path, const Bytes& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

constexpr int height = 3;
constexpr int width = 4;
const Bytes train_labels = {2, 0, 1, 2, 1};
const Bytes test_labels = {1, 2};

/// Five training images, two test images, three classes.
void write_set(const Folder& folder, const std::string& train = "train-", const std::string& test = "t10k-") {
  write_bytes(folder / (train + "images-idx3-ubyte"), idx(3, {5, height, width}, ramp(60)));
  write_bytes(folder / (train + "labels-idx1-ubyte"), idx(1, {5}, train_labels));
  write_bytes(folder / (test + "images-idx3-ubyte"), idx(3, {2, height, width}, ramp(24, 99)));
  write_bytes(folder / (test + "labels-idx1-ubyte"), idx(1, {2}, test_labels));
}

std::unique_ptr<Dataset> open(const std::filesystem::path& folder, Split split) {
  DataConfig config;
  config.format = "idx";
  config.path = folder.string();
  return open_dataset(config, split, 1);
}

void expect_set(const Dataset& set, const Bytes& values, const Bytes& labels) {
  ASSERT_EQ(set.size(), static_cast<long>(labels.size()));
  EXPECT_EQ(set.shape(), (ImageShape{height, width, 1}));
  EXPECT_EQ(set.classes(), 3);
  std::vector<long> indices(labels.size());  // back to front, so that order is seen to be kept
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<long>(indices.size() - 1 - i);
  std::vector<float> images(values.size(), -1);
  std::vector<std::int32_t> read(labels.size(), -1);
  set.read(indices, images.data(), read.data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(read[i], labels[static_cast<std::size_t>(indices[i])]);
    for (std::size_t j = 0; j < height * width; ++j)
      EXPECT_EQ(images[i * height * width + j],
                static_cast<float>(values[static_cast<std::size_t>(indices[i]) * height * width + j]) / 255.0F);
  }
}

TEST(IdxDataset, ReadsPlainFiles) {
  const Folder folder;
  write_set(folder);
  expect_set(*open(folder.path(), Split::train), ramp(60), train_labels);
  expect_set(*open(folder.path(), Split::test), ramp(24, 99), test_labels);
}

TEST(IdxDataset, ReadsGzippedFiles) {
  const Folder folder;
  write_gzip(folder / "train-images-idx3-ubyte.gz", idx(3, {5, height, width}, ramp(60)));
  write_gzip(folder / "train-labels-idx1-ubyte.gz", idx(1, {5}, train_labels));
  write_gzip(folder / "t10k-images-idx3-ubyte.gz", idx(3, {2, height, width}, ramp(24, 99)));
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx(1, {2}, test_labels));
  expect_set(*open(folder.path(), Split::train), ramp(60), train_labels);
  expect_set(*open(folder.path(), Split::test), ramp(24, 99), test_labels);
}

TEST(IdxDataset, ReadsOneSplitOfEmnist) {
  const Folder folder;
  write_set(folder, "emnist-digits-train-", "emnist-digits-test-");
  expect_set(*open(folder.path(), Split::train), ramp(60), train_labels);
  expect_set(*open(folder.path(), Split::test), ramp(24, 99), test_labels);
  write_set(folder, "emnist-letters-train-", "emnist-letters-test-");
  expect_error([&] { open(folder.path(), Split::train); }, {"holds 2 sets", "emnist-digits", "emnist-letters"});
}

TEST(IdxDataset, CountsClassesWhereLabelsBeginAtOne) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "train-labels-idx1-ubyte", idx(1, {5}, {1, 2, 3, 2, 1}));
  EXPECT_EQ(open(folder.path(), Split::train)->classes(), 4);
}

TEST(IdxDataset, RefusesAnIndexOutsideTheSet) {
  const Folder folder;
  write_set(folder);
  const auto set = open(folder.path(), Split::train);
  std::vector<float> image(height * width);
  std::int32_t label = 0;
  const std::vector<long> beyond = {5};
  expect_error([&] { set->read(beyond, image.data(), &label); }, {"image 5", "0..4"});
}

TEST(IdxDataset, SaysWhatIsMissing) {
  const Folder folder;
  expect_error([&] { open(folder / "nowhere", Split::train); },
               {"nowhere", "no such folder", "train-images-idx3-ubyte", "dataset-fashion-mnist"});
  expect_error([&] { open(folder.path(), Split::train); },
               {folder.path().string(), "train-images-idx3-ubyte", ".gz", "emnist-<split>", "dataset-fashion-mnist"});
  write_set(folder);
  std::filesystem::remove(folder / "t10k-labels-idx1-ubyte");
  expect_error([&] { open(folder.path(), Split::test); }, {"t10k-labels-idx1-ubyte", "no such file", ".gz"});
}

TEST(IdxDataset, RefusesATruncatedFile) {
  const Folder folder;
  write_set(folder);
  const std::string name = "train-images-idx3-ubyte";
  Bytes bytes = idx(3, {5, height, width}, ramp(60));
  bytes.pop_back();
  write_bytes(folder / name, bytes);
  expect_error([&] { open(folder.path(), Split::train); }, {name, "truncated", "60 bytes", "offset 16", "75 bytes"});
  bytes.resize(10);
  write_bytes(folder / name, bytes);
  expect_error([&] { open(folder.path(), Split::train); }, {name, "truncated", "offset 8", "found 2"});
  write_bytes(folder / name, {});
  expect_error([&] { open(folder.path(), Split::train); }, {name, "truncated", "offset 0", "found 0"});
}

TEST(IdxDataset, RefusesATruncatedOrDamagedGzipFile) {
  const Folder folder;
  write_set(folder);
  const std::string name = "train-images-idx3-ubyte";
  std::filesystem::remove(folder / name);
  const std::filesystem::path packed = folder / (name + ".gz");
  write_gzip(packed, idx(3, {5, height, width}, ramp(60)));
  const auto whole = std::filesystem::file_size(packed);
  Bytes bytes(whole);
  std::ifstream(packed, std::ios::binary).read(reinterpret_cast<char*>(bytes.data()), static_cast<long>(whole));

  for (const std::size_t kept : {whole - 1, whole - 8, whole / 2}) {
    write_bytes(packed, Bytes(bytes.begin(), bytes.begin() + static_cast<long>(kept)));
    expect_error([&] { open(folder.path(), Split::train); }, {name + ".gz", "truncated"});
  }
  Bytes damaged = bytes;
  damaged[whole - 6] ^= 0x10U;  // in the checksum
  write_bytes(packed, damaged);
  expect_error([&] { open(folder.path(), Split::train); }, {name + ".gz", "incorrect data check"});
  write_bytes(packed, idx(3, {5, height, width}, ramp(60)));
  expect_error([&] { open(folder.path(), Split::train); }, {name + ".gz", "not a gzip file"});
}

TEST(IdxDataset, RefusesTrailingBytes) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "train-images-idx3-ubyte", idx(3, {5, height, width}, ramp(61)));
  expect_error([&] { open(folder.path(), Split::train); }, {"train-images-idx3-ubyte", "trailing", "offset 76"});
}

TEST(IdxDataset, RefusesAnotherMagicNumber) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "train-images-idx3-ubyte", idx(1, {5}, train_labels));
  expect_error([&] { open(folder.path(), Split::train); },
               {"train-images-idx3-ubyte", "offset 0", "2049", "expected 2051"});
}

TEST(IdxDataset, RefusesExtentsThatTheFileCannotHold) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "train-images-idx3-ubyte", idx(3, {0xffffffffU, 60000, 60000}, ramp(60)));
  expect_error([&] { open(folder.path(), Split::train); }, {"train-images-idx3-ubyte", "76 bytes cannot hold"});
  write_bytes(folder / "train-images-idx3-ubyte", idx(3, {5, 0, 4}, {}));
  expect_error([&] { open(folder.path(), Split::train); }, {"offset 8 is 0", "expected 1.."});
}

TEST(IdxDataset, RefusesLabelsOutOfRange) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx(1, {2}, {1, 3}));
  expect_error([&] { open(folder.path(), Split::test); }, {"t10k-labels-idx1-ubyte", "offset 9", "is 3", "0..2"});
  write_bytes(folder / "train-labels-idx1-ubyte", idx(1, {5}, {2, 0, 255, 2, 1}));
  expect_error([&] { open(folder.path(), Split::train); },
               {"train-labels-idx1-ubyte", "offset 10", "is 255", "no training image has label 3"});
}

TEST(IdxDataset, RefusesAnotherNumberOfLabelsThanImages) {
  const Folder folder;
  write_set(folder);
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx(1, {1}, {1}));
  expect_error([&] { open(folder.path(), Split::test); },
               {"t10k-images-idx3-ubyte", "holds 2 images", "expected 1", "t10k-labels-idx1-ubyte"});
}

TEST(IdxDataset, ImagesAloneNeedNoLabels) {
  const Folder folder;
  write_bytes(folder / "t10k-images-idx3-ubyte", idx(3, {2, height, width}, ramp(24, 99)));
  for (const std::filesystem::path& path : {folder.path(), folder / "t10k-images-idx3-ubyte"}) {
    const auto set = open_images(data_at(path.string(), DataConfig()), Split::test);
    EXPECT_EQ(set->size(), 2);
    EXPECT_EQ(set->shape(), (ImageShape{height, width, 1}));
    EXPECT_EQ(set->labels_per_image(), 0);
    std::vector<float> image(height * width);
    const std::vector<long> index{1};
    set->read(index, image.data(), nullptr);
    EXPECT_EQ(image[2], static_cast<float>(ramp(24, 99)[14]) / 255);
  }
  write_bytes(folder / "photo.png", {0x89, 'P', 'N', 'G'});
  EXPECT_STREQ(format_found_at(folder / "photo.png")->name, "hdf5");  // which then says what is wrong with it
  expect_error([&] { data_at((folder / "nowhere").string(), DataConfig()); }, {"nowhere: no such file or folder"});
  std::filesystem::create_directories(folder / "empty");
  expect_error([&] { data_at((folder / "empty").string(), DataConfig()); },
               {"empty: is a folder without IDX or CIFAR"});
}

}  // namespace
}  // namespace halograd::idx_dataset_test
