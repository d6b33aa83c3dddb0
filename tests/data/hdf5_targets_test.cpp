#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <set>

#include "data/data_files.hpp"
#include "data/dataset.hpp"
#include "data/hdf5_file.hpp"
#include "data/loader.hpp"

namespace halograd::hdf5_targets_test {
namespace {

using test::expect_error;
using test::Folder;

constexpr hsize_t height = 4, width = 6, pixels = height * width;

/// Images (N, height, width, 1) in which no value is there twice.
std::vector<float> images_of(hsize_t images) {
  std::vector<float> values(images * pixels);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i) / 64;
  return values;
}

/// Numbers k = 0, 1 ... of a pixel: as many times its value.
std::vector<float> multiples(const std::vector<float>& values, int count) {
  std::vector<float> targets;
  for (const float value : values) {
    for (int k = 0; k < count; ++k) targets.push_back(static_cast<float>(k + 2) * value);
  }
  return targets;
}

DataConfig config_of(const std::filesystem::path& path) {
  DataConfig config;
  config.format = "hdf5";
  config.path = path.string();
  return config;
}

void write_file(const std::filesystem::path& path, const std::vector<hsize_t>& train_extents,
                const std::vector<float>& train, const std::vector<hsize_t>& test_extents,
                const std::vector<float>& test, hid_t type = H5T_IEEE_F32LE) {
  const test::Hdf5Writer file(path);
  for (const auto& [group, count] : {std::pair<std::string, hsize_t>{"/train", train_extents[0]}, {"/test", 3}}) {
    file.add((group + "/images").c_str(), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {count, height, width, 1}, images_of(count),
             {count > 4 ? hsize_t{4} : hsize_t{0}});
  }
  file.add("/train/labels", type, H5T_NATIVE_FLOAT, train_extents, train, {8});
  file.add("/test/labels", type, H5T_NATIVE_FLOAT, test_extents, test);
}

TEST(Hdf5Targets, OfAnImageAreReadInTheOrderAskedFor) {
  const Folder folder;
  const auto path = folder.path() / "targets.h5";
  const hid_t narrow = H5T_IEEE_F32LE, wide = H5T_IEEE_F64BE;  // nvcc 13 takes no macro with a comma in braces
  for (const hid_t type : {narrow, wide}) {
    for (const hsize_t count : {0, 1, 5}) {  // 0: (N)
      const hsize_t values = std::max<hsize_t>(1, count);
      std::vector<float> train(20 * values), test(3 * values, 0.5F);
      for (std::size_t i = 0; i < train.size(); ++i) train[i] = -3 + static_cast<float>(i) / 8;
      const auto extents = [&](hsize_t images) {
        return count == 0 ? std::vector<hsize_t>{images} : std::vector<hsize_t>{images, count};
      };
      write_file(path, extents(20), train, extents(3), test, type);
      const auto data = open_dataset(config_of(path), Split::train, 1);
      ASSERT_EQ(data->target_values(), static_cast<int>(values));
      EXPECT_EQ(data->labels_per_image(), 1);
      EXPECT_EQ(data->classes(), 0);
      const std::vector<long> indices{17, 2, 9};
      std::vector<float> targets(3 * values);
      data->read_targets(indices, targets.data());
      for (std::size_t i = 0; i < targets.size(); ++i)
        EXPECT_EQ(targets[i], train[static_cast<std::size_t>(indices[i / values]) * values + i % values]);
      EXPECT_EQ(open_dataset(config_of(path), Split::test, 1)->target_values(), static_cast<int>(values));
    }
  }
}

/// Cropped and mirrored: each pixel's numbers stay with it.
TEST(Hdf5Targets, OfPixelsStayWithThemThroughTheLoader) {
  const Folder folder;
  const auto path = folder.path() / "pixels.h5";
  for (const int count : {1, 3}) {
    std::vector<hsize_t> extents{50, height, width}, test_extents{3, height, width};
    if (count > 1) extents.push_back(3), test_extents.push_back(3);
    write_file(path, extents, multiples(images_of(50), count), test_extents, multiples(images_of(3), count));
    for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{1} << 20U}) {
      DataConfig config = config_of(path);
      config.cache_memory = memory;
      config.pad_crop = 1;
      config.flip = true;
      const auto data = open_dataset(config, Split::train, 1);
      ASSERT_EQ(data->labels_per_image(), static_cast<long>(pixels));
      ASSERT_EQ(data->target_values(), count);
      Loader loader(*data, config, {10, 0, 1, 7, true, true});
      loader.start_epoch(1);
      std::set<long> seen;
      while (const Batch* batch = loader.next()) {
        EXPECT_TRUE(batch->labels.empty());
        ASSERT_EQ(batch->targets, multiples(batch->images, count));
        seen.insert(batch->indices.begin(), batch->indices.end());
      }
      EXPECT_EQ(seen.size(), 50U);
    }
  }
}

TEST(Hdf5Targets, WhatIsWrongWithThemIsTold) {
  const Folder folder;
  const auto path = folder.path() / "bad.h5";
  const auto opened = [&](Split split) { return open_dataset(config_of(path), split, 1); };
  const std::vector<float> some(20 * pixels, 1.0F);
  write_file(path, {20, 2}, some, {3, 3}, some);
  expect_error([&] { opened(Split::test); }, {"bad.h5:/test/labels", "3 real numbers", "2 real numbers"});
  write_file(path, {20, 2}, some, {3, height, width}, some);
  expect_error([&] { opened(Split::test); }, {"bad.h5:/test/labels", "per pixel", "per image"});
  write_file(path, {20, width, height}, some, {3}, some);
  expect_error([&] { opened(Split::train); }, {"bad.h5:/train/labels", "20 x 6 x 4", "20 x 4 x 6", "20 x K"});
  std::vector<float> broken = some;
  broken[7] = std::nanf("");
  write_file(path, {20, 2}, broken, {3, 2}, some);
  expect_error([&] { opened(Split::train); }, {"bad.h5:/train/labels", "index 3 is nan", "finite"});
  write_file(path, {20, height, width}, broken, {3, height, width}, some);
  const auto data = opened(Split::train);
  std::vector<float> targets(pixels);
  data->read_targets(std::vector<long>{1}, targets.data());
  expect_error([&] { data->read_targets(std::vector<long>{0}, targets.data()); },
               {"bad.h5:/train/labels", "image 0", "nan", "pixel 7", "finite"});
}

TEST(Hdf5Targets, AsManyAsImages) {
  const Folder folder;
  const auto path = folder.path() / "few.h5";
  {
    const test::Hdf5Writer file(path);
    for (const char* group : {"/train", "/test"}) {
      const std::string name = group;
      file.add((name + "/images").c_str(), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {9, height, width, 1}, images_of(9));
      file.add((name + "/labels").c_str(), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {8, 2}, std::vector<float>(16));
    }
  }
  expect_error([&] { open_dataset(config_of(path), Split::train, 1); }, {"few.h5:/train/images", "9 images", "8"});
}

}  // namespace
}  // namespace halograd::hdf5_targets_test
