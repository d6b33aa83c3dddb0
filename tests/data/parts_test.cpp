// Parts of images beside the same pixels of whole ones.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/data_files.hpp"
#include "data/dataset.hpp"
#include "data/hdf5_file.hpp"

namespace halograd::parts_test {
namespace {

using test::Folder;

const Shape volume(5, 4, 6, 2);
const Box box{{1, 0, 3}, {4, 4, 5}};
constexpr hsize_t count = 7;

struct Read {
  std::vector<float> images, targets;
  std::vector<std::int32_t> labels;
};

Read read(const Dataset& set) {
  std::vector<long> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.rbegin(), indices.rend(), 0L);
  const auto labels = indices.size() * static_cast<std::size_t>(set.labels_per_image());
  Read all;
  all.images.resize(indices.size() * static_cast<std::size_t>(set.shape().values()));
  all.labels.resize(set.target_values() > 0 ? 0 : labels);
  all.targets.resize(labels * static_cast<std::size_t>(set.target_values()));
  set.read(indices, all.images.data(), all.labels.data());
  if (set.target_values() > 0) set.read_targets(indices, all.targets.data());
  return all;
}

/// The box's pixels of each of the volumes.
template <class T>
std::vector<T> cut(const std::vector<T>& whole, std::size_t values) {
  std::vector<T> part;
  const auto pixels = static_cast<std::size_t>(volume.pixels());
  for (std::size_t n = 0; n < whole.size() / pixels / values; ++n) {
    for (int d = box.begin[0]; d < box.end[0]; ++d) {
      for (int h = box.begin[1]; h < box.end[1]; ++h) {
        for (int w = box.begin[2]; w < box.end[2]; ++w) {
          const auto pixel = n * pixels + static_cast<std::size_t>((d * volume.height + h) * volume.width + w);
          part.insert(part.end(), whole.begin() + static_cast<long>(pixel * values),
                      whole.begin() + static_cast<long>((pixel + 1) * values));
        }
      }
    }
  }
  return part;
}

void expect_parts(const DataConfig& config) {
  const auto whole = open_dataset(config, Split::train, 1);
  const auto parts = open_parts(config, Split::train, 1, {}, [](const Shape& shape) {
    EXPECT_EQ(shape, volume);
    return box;
  });
  EXPECT_EQ(parts->shape(), part_of(volume, box));
  EXPECT_EQ(parts->whole_shape(), volume);
  EXPECT_EQ(parts->size(), whole->size());
  EXPECT_EQ(parts->whole_labels_per_image(), whole->labels_per_image());
  // so that ranks with different parts shuffle alike
  EXPECT_EQ(parts->block_images(), whole->block_images());
  EXPECT_EQ(parts->in_memory(), whole->in_memory());
  const bool by_pixel = whole->labels_per_image() > 1;
  EXPECT_EQ(parts->labels_per_image(), by_pixel ? box.pixels() : 1);
  const Read all = read(*whole), part = read(*parts);
  EXPECT_EQ(part.images, cut(all.images, static_cast<std::size_t>(volume.channels)));
  EXPECT_EQ(part.labels, by_pixel ? cut(all.labels, 1) : all.labels);
  EXPECT_EQ(part.targets,
            by_pixel ? cut(all.targets, std::max<std::size_t>(1, static_cast<std::size_t>(whole->target_values())))
                     : all.targets);
}

/// Without labels, from a set of parts and from a set that reads any part of an image.
void expect_unlabelled_parts(const DataConfig& config) {
  const auto whole = open_images(config, Split::train);
  const auto parts = open_images(config, Split::train, {}, [](const Shape&) { return box; });
  EXPECT_EQ(parts->labels_per_image(), 0);
  const std::vector<float> expected = cut(read(*whole).images, static_cast<std::size_t>(volume.channels));
  EXPECT_EQ(read(*parts).images, expected);
  const Box inner{{1, 1, 0}, {3, 4, 2}};  // of a part
  Box moved = inner;
  for (int axis = 0; axis < 3; ++axis) {
    moved.begin[axis] += box.begin[axis];
    moved.end[axis] += box.begin[axis];
  }
  const auto each = static_cast<std::size_t>(box.pixels() * volume.channels);
  std::vector<float> part(each), of_part(static_cast<std::size_t>(inner.pixels() * volume.channels)),
      same(of_part.size());
  for (long index = 0; index < whole->size(); ++index) {
    ASSERT_TRUE(whole->read_part(index, box, part.data()));
    const auto place = static_cast<std::size_t>(whole->size() - 1 - index) * each;
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<long>(place))) << index;
    ASSERT_TRUE(parts->read_part(index, inner, of_part.data()));
    ASSERT_TRUE(whole->read_part(index, moved, same.data()));
    EXPECT_EQ(of_part, same);
  }
  EXPECT_THROW(whole->read_part(whole->size(), box, part.data()), Error);
}

TEST(Parts, OfSyntheticVolumes) {
  DataConfig config;
  config.format = "synthetic";
  config.synthetic_train = static_cast<int>(count);
  config.synthetic_shape = {volume.depth, volume.height, volume.width, volume.channels};
  for (const char* labels : {"image", "pixel"}) {
    config.synthetic_labels = labels;
    expect_parts(config);
  }
}

template <class T>
std::vector<T> ramp(hsize_t length, int period) {
  std::vector<T> values(length);
  for (hsize_t i = 0; i < length; ++i) values[i] = static_cast<T>(i % static_cast<hsize_t>(period));
  return values;
}

TEST(Parts, OfImagesInOtherFilesAreCut) {
  const Folder folder;
  const std::vector<std::uint8_t> pixels = ramp<std::uint8_t>(2 * 3 * 4, 24);
  std::vector<std::uint8_t> bytes{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
  bytes.insert(bytes.end(), pixels.begin(), pixels.end());
  test::write_bytes(folder / "images", bytes);
  const auto parts =
      open_images(data_at((folder / "images").string(), DataConfig()), Split::test, {}, [](const Shape&) {
        return Box{{0, 1, 2}, {1, 3, 4}};
      });
  std::vector<float> expected{18, 19, 22, 23, 6, 7, 10, 11};
  for (float& value : expected) value /= 255;
  EXPECT_EQ(read(*parts).images, expected);
  EXPECT_FALSE(parts->read_part(0, Box{}, nullptr));
}

TEST(Parts, OfHdf5Files) {
  const Folder folder;
  const auto values = count * static_cast<hsize_t>(volume.values()),
             pixels = count * static_cast<hsize_t>(volume.pixels());
  const std::vector<hsize_t> images{count, 5, 4, 6, 2}, labels{count, 5, 4, 6}, targets{count, 5, 4, 6, 3};
  int number = 0;
  for (const test::Storage& storage : {test::Storage{}, test::Storage{2, false}, test::Storage{3, true}}) {
    const auto path = [&](const char* kind) { return (folder / (kind + std::to_string(number) + ".h5")).string(); };
    {
      const test::Hdf5Writer bytes(path("bytes")), floats(path("floats")), one(path("one"));
      bytes.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, images, ramp<std::uint8_t>(values, 251), storage);
      bytes.add("/train/labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, labels, ramp<std::uint8_t>(pixels, 3), storage,
                {{"classes", 3}});
      floats.add("/train/images", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, images, ramp<float>(values, 997), storage);
      floats.add("/train/labels", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, targets, ramp<float>(3 * pixels, 77), storage);
      one.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, images, ramp<std::uint8_t>(values, 251), storage);
      one.add("/train/labels", H5T_STD_I32LE, H5T_NATIVE_INT, {count}, ramp<int>(count, 4));
    }
    for (const char* kind : {"bytes", "floats", "one"}) {
      SCOPED_TRACE(path(kind));
      DataConfig config;
      config.format = "hdf5";
      config.path = path(kind);
      expect_parts(config);
      expect_unlabelled_parts(config);
    }
    ++number;
  }
}

}  // namespace
}  // namespace halograd::parts_test
