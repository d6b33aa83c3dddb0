#include <gtest/gtest.h>
#include <hdf5.h>

#include <set>

#include "data/data_files.hpp"
#include "data/dataset.hpp"
#include "data/hdf5_file.hpp"
#include "data/loader.hpp"

namespace halograd::hdf5_pixel_labels_test {
namespace {

using test::Bytes;
using test::expect_error;
using test::Folder;

constexpr hsize_t height = 4, width = 6, pixels = height * width;
constexpr std::uint8_t bright = 100;

/// Pixels of `images` images; each image has another value at its first pixel.
Bytes grey(hsize_t images) {
  Bytes bytes(images * pixels);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>((i * i + 31 * i) % 251);
  for (std::size_t image = 0; image < images; ++image) bytes[image * pixels] = static_cast<std::uint8_t>(image);
  return bytes;
}

/// 1 where the pixel is bright.
std::vector<int> brightness(const Bytes& images) {
  std::vector<int> labels;
  for (const std::uint8_t value : images) labels.push_back(value >= bright ? 1 : 0);
  return labels;
}

/// HDF5's names of types are macros with a comma in them, which nvcc 13 does not take in braces.
hid_t byte_type() {
  return H5T_STD_U8LE;
}

struct Written {
  hid_t type = byte_type();  ///< of the labels
  std::vector<hsize_t> test_extents{3, height, width};
  std::map<std::string, int> attributes{{"classes", 2}};
  int spoilt = 1;  ///< the label of the pixel 10 of image 2
};

void write_file(const std::filesystem::path& path, hsize_t images, const Written& written = {}) {
  const test::Hdf5Writer file(path);
  const Bytes values = grey(images), test_values = grey(3);
  std::vector<int> labels = brightness(values), test_labels(3 * pixels, 1);
  if (written.spoilt != 1) labels[2 * pixels + 10] = written.spoilt;
  file.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {images, height, width, 1}, values, {4});
  file.add("/train/labels", written.type, H5T_NATIVE_INT, {images, height, width}, labels, {8}, written.attributes);
  file.add("/test/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {3, height, width, 1}, test_values);
  file.add("/test/labels", written.type, H5T_NATIVE_INT, written.test_extents, test_labels, {}, written.attributes);
}

DataConfig config_of(const std::filesystem::path& path) {
  DataConfig config;
  config.format = "hdf5";
  config.path = path.string();
  return config;
}

TEST(Hdf5PixelLabels, OfAnyIntegerTypeAreReadInTheOrderAskedFor) {
  const Folder folder;
  int number = 0;
  const hid_t four_bytes = H5T_STD_I32LE, eight_bytes = H5T_STD_I64BE;
  for (const hid_t type : {byte_type(), four_bytes, eight_bytes}) {
    const auto path = folder.path() / ("types" + std::to_string(number++) + ".h5");
    write_file(path, 20, {type});
    const auto data = open_dataset(config_of(path), Split::train, 1);
    ASSERT_EQ(data->labels_per_image(), static_cast<long>(pixels));
    EXPECT_EQ(data->classes(), 2);
    EXPECT_EQ(data->size(), 20);
    const std::vector<long> indices{17, 2, 9};
    std::vector<float> images(3 * pixels);
    std::vector<std::int32_t> labels(3 * pixels, -1);
    data->read(indices, images.data(), labels.data());
    const std::vector<int> expected = brightness(grey(20));
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t pixel = 0; pixel < pixels; ++pixel)
        ASSERT_EQ(labels[i * pixels + pixel], expected[static_cast<std::size_t>(indices[i]) * pixels + pixel]);
    }
    EXPECT_EQ(open_dataset(config_of(path), Split::test, 1)->labels_per_image(), static_cast<long>(pixels));
  }
}

/// A set that is read from its file in windows, cropped and mirrored: each label stays with its pixel.
TEST(Hdf5PixelLabels, StayWithTheirPixelsThroughTheLoader) {
  const Folder folder;
  const auto path = folder.path() / "stream.h5";
  write_file(path, 90);
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{1} << 20U}) {
    DataConfig config = config_of(path);
    config.cache_memory = memory;
    config.shuffle = memory < 5000 ? "auto" : "full";
    config.pad_crop = 1;
    config.flip = true;
    const auto data = open_dataset(config, Split::train, 1);
    EXPECT_EQ(data->in_memory(), memory > 5000);
    for (int rank = 0; rank < 2; ++rank) {
      Loader loader(*data, config, {10, rank, 2, 7, true, true});
      for (long epoch = 0; epoch < 2; ++epoch) {
        loader.start_epoch(epoch);
        std::set<long> seen;
        while (const Batch* batch = loader.next()) {
          ASSERT_EQ(batch->labels.size(), static_cast<std::size_t>(batch->size) * pixels);
          for (std::size_t i = 0; i < batch->labels.size(); ++i)
            ASSERT_EQ(batch->labels[i], batch->images[i] >= static_cast<float>(bright) / 255 ? 1 : 0) << i;
          seen.insert(batch->indices.begin(), batch->indices.end());
        }
        EXPECT_EQ(seen.size(), 45U);
      }
    }
  }
}

TEST(Hdf5PixelLabels, WhatIsWrongWithThemIsTold) {
  const Folder folder;
  const auto path = folder.path() / "bad.h5";
  const auto opened = [&](Split split) { return open_dataset(config_of(path), split, 1); };
  write_file(path, 20, {byte_type(), {3, height, width}, {}});
  expect_error([&] { opened(Split::train); }, {"bad.h5:/train/labels", "one label per pixel", "`classes`"});
  write_file(path, 20, {byte_type(), {3}});
  expect_error([&] { opened(Split::test); }, {"bad.h5:/test/labels", "one label per image", "/train", "per pixel"});
  write_file(path, 20, {byte_type(), {3, width, height}});
  expect_error([&] { opened(Split::test); }, {"bad.h5:/test/labels", "has shape 3 x 6 x 4", "expected 3 x 4 x 6"});
  const hid_t two_bytes = H5T_STD_I16LE;
  for (const hid_t type : {byte_type(), two_bytes}) {
    write_file(path, 20, {type, {3, height, width}, {{"classes", 2}}, 7});
    const auto data = opened(Split::train);
    std::vector<float> images(pixels);
    std::vector<std::int32_t> labels(pixels);
    const std::vector<long> good{1}, bad{2};
    data->read(good, images.data(), labels.data());
    expect_error([&] { data->read(bad, images.data(), labels.data()); },
                 {"bad.h5:/train/labels", "image 2", "the label 7", "pixel 10", "0..1"});
  }
}

/// A file may claim more than anyone has: nothing is to overflow on the way to saying so.
TEST(Hdf5PixelLabels, SizesThatCannotBeAreRefused) {
  const Folder folder;
  const auto path = folder.path() / "huge.h5";
  {
    const test::Hdf5Writer file(path);
    file.add("/train/labels", H5T_STD_U8LE, H5T_NATIVE_INT, {2}, std::vector<int>{0, 1});
    file.add_unwritten("/train/images", H5T_IEEE_F32LE, {2, 60000, 60000, 60000, 60000});
  }
  expect_error([&] { open_dataset(config_of(path), Split::train, 1); },
               {"huge.h5:/train/images", "an image has more than 2147483647 values"});
}

}  // namespace
}  // namespace halograd::hdf5_pixel_labels_test
