#include <gtest/gtest.h>
#include <hdf5.h>

#include <limits>
#include <numeric>

#include "data/data_files.hpp"
#include "data/dataset.hpp"
#include "data/hdf5_file.hpp"

namespace halograd::objects_dataset_test {
namespace {

using test::expect_error;
using test::Folder;

const Shape volume(9, 10, 11, 4);
constexpr hsize_t volumes = 3;
const std::vector<hsize_t> image_extents{volumes, 9, 10, 11, 4}, object_extents{volumes, 9, 10, 11};

/// Where each voxel lies: its volume, slice, row and column are the four channels.
std::vector<float> places() {
  std::vector<float> values;
  for (int n = 0; n < static_cast<int>(volumes); ++n) {
    for (int d = 0; d < volume.depth; ++d) {
      for (int h = 0; h < volume.height; ++h) {
        for (int w = 0; w < volume.width; ++w)
          for (const int place : {n, d, h, w}) values.push_back(static_cast<float>(place));
      }
    }
  }
  return values;
}

/// Slabs of background between objects of other sizes in each volume.
long object_at(int n, int d, int h, int w) {
  return d % 4 == 3 ? 0 : 1 + d / 4 + 3 * (h / (2 + n)) + 20 * (w / 6);
}

std::vector<long> objects() {
  std::vector<long> values;
  for (const auto& place = places(); values.size() * 4 < place.size();) {
    const float* at = place.data() + 4 * values.size();
    values.push_back(
        object_at(static_cast<int>(at[0]), static_cast<int>(at[1]), static_cast<int>(at[2]), static_cast<int>(at[3])));
  }
  return values;
}

/// HDF5's names of types are macros with a comma in them, which nvcc 13 does not take in braces.
hid_t byte_type() {
  return H5T_STD_U8LE;
}

void write_file(const std::filesystem::path& path, hid_t type = byte_type(), test::Storage storage = {}) {
  const test::Hdf5Writer file(path);
  for (const std::string group : {"/train", "/test"}) {
    file.add((group + "/images").c_str(), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, image_extents, places(), storage);
    file.add((group + "/objects").c_str(), type, H5T_NATIVE_LONG, object_extents, objects(), storage);
  }
}

DataConfig config_of(const std::filesystem::path& path) {
  DataConfig config;
  config.format = "objects";
  config.path = path.string();
  config.objects_field = {4, 5, 3};
  config.objects_background = 0;
  config.objects_train = 60;
  config.objects_test = 20;
  return config;
}

struct Read {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

Read read(const Dataset& set, const std::vector<long>& indices) {
  Read all{std::vector<float>(indices.size() * static_cast<std::size_t>(set.shape().values()), -1),
           std::vector<std::int32_t>(indices.size() * static_cast<std::size_t>(set.labels_per_image()), -1)};
  set.read(indices, all.images.data(), all.labels.data());
  return all;
}

Read read(const Dataset& set) {
  std::vector<long> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0L);
  return read(set, indices);
}

TEST(ObjectsDataset, FieldsAreBoxesOfTheVolumesAroundAVoxelOfAnObject) {
  const Folder folder;
  write_file(folder / "set.h5", byte_type(), {2, true});
  const auto set = open_dataset(config_of(folder / "set.h5"), Split::train, 1);
  EXPECT_EQ(set->size(), 60);
  EXPECT_EQ(set->shape(), ImageShape(4, 5, 3, 4));
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(set->labels_per_image(), 60);
  EXPECT_TRUE(set->in_memory());
  const Read all = read(*set);
  std::array<int, volumes> seen{};
  for (std::size_t field = 0; field < 60; ++field) {
    const float* image = all.images.data() + field * 240;
    const int n = static_cast<int>(image[0]), first_d = static_cast<int>(image[1]),
              first_h = static_cast<int>(image[2]), first_w = static_cast<int>(image[3]);
    ++seen[static_cast<std::size_t>(n)];
    const long object = object_at(n, first_d + 2, first_h + 2, first_w + 1);
    ASSERT_NE(object, 0);
    for (int voxel = 0; voxel < 60; ++voxel) {
      const int d = first_d + voxel / 15, h = first_h + voxel / 3 % 5, w = first_w + voxel % 3;
      ASSERT_TRUE(d < volume.depth && h < volume.height && w < volume.width);
      const std::vector<float> expected{static_cast<float>(n), static_cast<float>(d), static_cast<float>(h),
                                        static_cast<float>(w)};
      ASSERT_EQ(std::vector<float>(image + 4 * voxel, image + 4 * voxel + 4), expected) << field << " " << voxel;
      ASSERT_EQ(all.labels[field * 60 + static_cast<std::size_t>(voxel)], object_at(n, d, h, w) == object ? 1 : 0);
    }
  }
  for (const int count : seen) EXPECT_GT(count, 0);
}

TEST(ObjectsDataset, FieldsAreTheSameInAnyOrderAndByOtherRanks) {
  const Folder folder;
  write_file(folder / "set.h5");
  const auto set = open_dataset(config_of(folder / "set.h5"), Split::train, 1),
             other = open_dataset(config_of(folder / "set.h5"), Split::train, 1);
  const Read all = read(*set);
  for (const long index : {59L, 3L, 17L, 3L}) {
    const Read one = read(*other, {index});
    EXPECT_TRUE(std::equal(one.images.begin(), one.images.end(), all.images.begin() + index * 240)) << index;
    EXPECT_TRUE(std::equal(one.labels.begin(), one.labels.end(), all.labels.begin() + index * 60)) << index;
  }
  EXPECT_NE(read(*open_dataset(config_of(folder / "set.h5"), Split::train, 2)).images, all.images);
  const auto test = open_dataset(config_of(folder / "set.h5"), Split::test, 1);
  EXPECT_EQ(test->size(), 20);
  const std::vector<long> indices{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_NE(read(*test, indices).images, read(*set, indices).images);
  expect_error([&] { read(*set, {60}); }, {"image 60", "0..59"});
}

TEST(ObjectsDataset, NumbersMayBeOfAnyIntegerType) {
  const Folder folder;
  write_file(folder / "set.h5");
  const Read all = read(*open_dataset(config_of(folder / "set.h5"), Split::train, 1));
  const hid_t two = H5T_STD_I16LE, four = H5T_STD_U32BE, eight = H5T_STD_I64LE, other = H5T_STD_U64BE;
  for (const hid_t type : {two, four, eight, other}) {
    write_file(folder / "other.h5", type);
    const Read found = read(*open_dataset(config_of(folder / "other.h5"), Split::train, 1));
    EXPECT_EQ(found.images, all.images);
    EXPECT_EQ(found.labels, all.labels);
  }
}

TEST(ObjectsDataset, FieldsOfImagesAreFlatAndBytesAreTakenOverTheirMaximum) {
  const Folder folder;
  const auto path = folder / "flat.h5";
  {
    const test::Hdf5Writer file(path);
    std::vector<int> values(2UL * 20 * 30), numbers;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int>(i * 7 % 101);
      numbers.push_back(static_cast<int>(i % 30 / 4));
    }
    file.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_INT, {2, 20, 30, 1}, values, {}, {{"maximum", 100}});
    file.add("/train/objects", H5T_STD_I32LE, H5T_NATIVE_INT, {2, 20, 30}, numbers);
    values[600] = 101;
    file.add("/test/images", H5T_STD_U8LE, H5T_NATIVE_INT, {2, 20, 30, 1}, values, {}, {{"maximum", 100}});
    file.add("/test/objects", H5T_STD_I32LE, H5T_NATIVE_INT, {2, 20, 30}, numbers);
  }
  DataConfig config = config_of(path);
  config.objects_field = {8};
  const auto set = open_dataset(config, Split::train, 1);
  EXPECT_EQ(set->shape(), ImageShape(8, 8, 1));
  const Read all = read(*set);
  for (std::size_t field = 0; field < 60; ++field) {
    const float* image = all.images.data() + field * 64;
    std::size_t matches = 0;  // a place whose values are those of the field
    for (std::size_t first = 0; first < 2UL * 20 * 30; ++first) {
      if (first % 30 > 22 || first / 30 % 20 > 12) continue;
      bool same = true;
      for (std::size_t voxel = 0; voxel < 64 && same; ++voxel) {
        const std::size_t at = first + voxel / 8 * 30 + voxel % 8;
        same = image[voxel] == static_cast<float>(at * 7 % 101) / 100 &&
               all.labels[field * 64 + voxel] == (at % 30 / 4 == (first % 30 + 4) / 4 ? 1 : 0);
      }
      matches += same ? 1 : 0;
    }
    EXPECT_GE(matches, 1U) << field;
  }
  expect_error([&] { open_dataset(config, Split::test, 1); }, {"flat.h5:/test/images", "image 1", "101", "0..100"});
}

TEST(ObjectsDataset, PartsAreThoseOfTheFields) {
  const Folder folder;
  write_file(folder / "set.h5");
  const DataConfig config = config_of(folder / "set.h5");
  const auto whole = open_dataset(config, Split::train, 1);
  const auto part = open_parts(config, Split::train, 1, {}, [](const Shape&) { return Box{{1, 0, 0}, {3, 5, 3}}; });
  const Read all = read(*whole, {4}), cut = read(*part, {4});
  EXPECT_TRUE(std::equal(cut.images.begin(), cut.images.end(), all.images.begin() + 60, all.images.begin() + 180));
  EXPECT_TRUE(std::equal(cut.labels.begin(), cut.labels.end(), all.labels.begin() + 15, all.labels.begin() + 45));
}

TEST(ObjectsDataset, FilesAreFoundByTheirObjects) {
  const Folder folder;
  write_file(folder / "objects.h5");
  EXPECT_STREQ(format_found_at(folder / "objects.h5")->name, "objects");
  const auto images = open_images(data_at((folder / "objects.h5").string(), DataConfig()), Split::test);
  EXPECT_EQ(images->size(), static_cast<long>(volumes));
  EXPECT_EQ(images->shape(), volume);
  EXPECT_EQ(images->labels_per_image(), 0);
  {
    const test::Hdf5Writer both(folder / "both.h5"), neither(folder / "neither.h5"), test_alone(folder / "test.h5");
    both.add("/train/objects", H5T_STD_I32LE, H5T_NATIVE_LONG, object_extents, objects());
    both.add("/train/labels", H5T_STD_I32LE, H5T_NATIVE_INT, {3}, std::vector<int>{0, 1, 2});
    H5Ldelete(test_alone.id(), "/train", H5P_DEFAULT);
    test_alone.add("/test/objects", H5T_STD_I32LE, H5T_NATIVE_LONG, object_extents, objects());
  }
  test::write_bytes(folder / "photo.png", {1, 2, 3});
  EXPECT_STREQ(format_found_at(folder / "test.h5")->name, "objects");
  for (const char* name : {"both.h5", "neither.h5", "photo.png"})
    EXPECT_STREQ(format_found_at(folder / name)->name, "hdf5") << name;
  EXPECT_EQ(format_found_at(folder.path()), nullptr);
}

/// A file of which one dataset is written otherwise; empty extents: not at all.
template <class T>
std::filesystem::path with_other(const Folder& folder, const char* name, hid_t type, hid_t memory_type,
                                 const std::vector<hsize_t>& extents, const std::vector<T>& values) {
  const auto path = folder / "bad.h5";
  write_file(path);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(id, name, H5P_DEFAULT);
  if (!extents.empty()) {
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t dataset = H5Dcreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Dclose(dataset);
    H5Sclose(space);
  }
  H5Fclose(id);
  return path;
}

TEST(ObjectsDataset, DatasetsThatAreMissingOrOfOtherShapesAreRefused) {
  const Folder folder;
  const auto refuses = [&](Split split, const std::vector<std::string>& parts) {
    expect_error([&] { open_dataset(config_of(folder / "bad.h5"), split, 1); }, parts);
  };
  refuses(Split::train, {"bad.h5: no such file", "/train/images, /train/objects, /test/images and /test/objects"});
  const std::vector<long> none;
  with_other(folder, "/train/objects", H5T_STD_U8LE, H5T_NATIVE_LONG, {}, none);
  refuses(Split::train, {"bad.h5:/train/objects: no such dataset"});
  with_other(folder, "/test/images", H5T_STD_U8LE, H5T_NATIVE_LONG, {}, none);
  refuses(Split::test, {"bad.h5:/test/images: no such dataset"});
  const std::vector<hsize_t> turned{volumes, 9, 11, 10}, flat{volumes, 990}, line{2970};
  with_other(folder, "/train/objects", H5T_STD_U8LE, H5T_NATIVE_LONG, turned, objects());
  refuses(Split::train, {"bad.h5:/train/objects", "has shape 3 x 9 x 11 x 10", "expected 3 x 9 x 10 x 11"});
  with_other(folder, "/train/objects", H5T_STD_U8LE, H5T_NATIVE_LONG, flat, objects());
  refuses(Split::train, {"bad.h5:/train/objects", "has shape 3 x 990", "expected 3 x 9 x 10 x 11"});
  with_other(folder, "/train/objects", H5T_STD_U8LE, H5T_NATIVE_LONG, line, objects());
  refuses(Split::train, {"bad.h5:/train/objects", "has 1 dimensions"});
  with_other(folder, "/train/images", H5T_STD_U8LE, H5T_NATIVE_LONG, line, objects());
  refuses(Split::train, {"bad.h5:/train/images", "has 1 dimensions", "(N,D,H,W,C)"});
}

TEST(ObjectsDataset, ValuesThatCannotBeAreRefused) {
  const Folder folder;
  const auto refuses = [&](Split split, const std::vector<std::string>& parts) {
    expect_error([&] { open_dataset(config_of(folder / "bad.h5"), split, 1); }, parts);
  };
  const std::vector<float> fractions(objects().size(), 0.5F);
  with_other(folder, "/train/objects", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, object_extents, fractions);
  refuses(Split::train, {"bad.h5:/train/objects", "are no integers"});
  std::vector<long> numbers = objects();
  numbers[700] = -7;
  const hid_t one = H5T_STD_I8LE, two = H5T_STD_I16BE, eight = H5T_STD_I64LE, other = H5T_STD_I64BE;
  for (const hid_t type : {one, two, eight, other}) {
    with_other(folder, "/train/objects", type, H5T_NATIVE_LONG, object_extents, numbers);
    refuses(Split::train, {"bad.h5:/train/objects", "the object number -7", "0..4294967295"});
  }
  numbers[700] = 4294967296;
  const hid_t natural = H5T_STD_U64LE, other_natural = H5T_STD_U64BE;
  for (const hid_t type : {eight, other, natural, other_natural}) {
    with_other(folder, "/test/objects", type, H5T_NATIVE_LONG, object_extents, numbers);
    refuses(Split::test, {"bad.h5:/test/objects", "the object number 4294967296", "0..4294967295"});
  }
  numbers[700] = 4294967295;
  with_other(folder, "/train/objects", eight, H5T_NATIVE_LONG, object_extents, numbers);
  EXPECT_NO_THROW(open_dataset(config_of(folder / "bad.h5"), Split::train, 1));
  const std::vector<long> background(numbers.size(), 0);
  with_other(folder, "/train/objects", eight, H5T_NATIVE_LONG, object_extents, background);
  refuses(Split::train, {"bad.h5:/train/objects", "no object that a field of 4x5x3x4", "above 0"});
  const auto all = places();
  std::vector<double> values(all.begin(), all.end());
  with_other(folder, "/train/images", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, image_extents, values);
  refuses(Split::train, {"bad.h5:/train/images", "neither uint8 nor float32"});
  values[4000] = std::numeric_limits<double>::quiet_NaN();
  with_other(folder, "/test/images", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, image_extents, values);
  refuses(Split::test, {"bad.h5:/test/images", "image 1", "nan at position 40", "expected finite values"});
  with_other(folder, "/train/images", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, image_extents, values);
  EXPECT_NO_THROW(open_dataset(config_of(folder / "bad.h5"), Split::train, 1));  // training.non_finite deals with it
}

TEST(ObjectsDataset, KeysThatDoNotFitAreRefused) {
  const Folder folder;
  write_file(folder / "set.h5");
  const auto refuses = [&](const std::function<void(DataConfig&)>& change, const std::vector<std::string>& parts) {
    DataConfig config = config_of(folder / "set.h5");
    change(config);
    expect_error([&] { open_dataset(config, Split::train, 1); }, parts);
  };
  refuses([](DataConfig& config) { config.objects_field = {24}; },
          {"set.h5:/train/objects", "fields of 24x24x24x4 (data.objects_field)", "volumes of 9x10x11x4"});
  refuses(
      [](DataConfig& config) {
        config.objects_field = {3, 4};
      },
      {"set.h5:/train/images", "data.objects_field is [3, 4]", "one number, or 3, one for each axis"});
  refuses([](DataConfig& config) { config.objects_field = {3, 0, 3}; }, {"data.objects_field", "at least 1"});
  refuses([](DataConfig& config) { config.objects_train = 0; }, {"data.objects_train is 0", "at least 1"});
  // 3 volumes of 990 voxels, each with 4 float32 values and an object number
  refuses([](DataConfig& config) { config.cache_memory = 59399; },
          {"set.h5:/train: images and objects take 59400 bytes", "data.cache_memory = 59399"});
  DataConfig config = config_of(folder / "set.h5");
  config.cache_memory = 59400;
  EXPECT_NO_THROW(open_dataset(config, Split::train, 1));
}

/// A file may claim more than anyone has: nothing is to overflow, or to be taken, on the way to saying so.
TEST(ObjectsDataset, SizesThatCannotBeAreRefused) {
  const Folder folder;
  const auto path = folder / "huge.h5";
  {
    const test::Hdf5Writer file(path);
    file.add_unwritten("/train/images", H5T_STD_U8LE, {65535, 65535, 65535, 65535, 65535});
    file.add_unwritten("/train/objects", H5T_STD_U8LE, {65535, 65535, 65535, 65535});
    file.add_unwritten("/test/images", H5T_STD_U8LE, {1, 900, 900, 900, 1});
    file.add_unwritten("/test/objects", H5T_STD_U8LE, {1, 900, 900, 900});
  }
  DataConfig config = config_of(path);
  expect_error([&] { open_dataset(config, Split::train, 1); }, {"huge.h5:/train", "bytes of memory", "cache_memory"});
  config.cache_memory = std::uint64_t{1} << 40U;
  expect_error([&] { open_dataset(config, Split::test, 1); },
               {"huge.h5:/test/objects", "900 x 900 x 900", "cannot hold"});
}

/// Each chunk that is not there takes HDF5 its time.
TEST(ObjectsDataset, MoreChunksThanTheFileHasRoomForAreRefused) {
  const Folder folder;
  const auto path = folder / "chunks.h5";
  {
    const test::Hdf5Writer file(path);
    file.add_unwritten("/train/images", H5T_STD_U8LE, {4, 30, 30, 30, 1});
    file.add_unwritten("/train/objects", H5T_STD_U8LE, {4, 30, 30, 30});
  }
  expect_error([&] { open_dataset(config_of(path), Split::train, 1); },
               {"chunks.h5:/train", "4 x 30 x 30 x 30 in chunks of 1 x 1 x 1 x 1, which a file of", "cannot hold"});
}

}  // namespace
}  // namespace halograd::objects_dataset_test
