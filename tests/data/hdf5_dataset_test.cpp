#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "data/data_files.hpp"
#include "data/dataset.hpp"
#include "data/hdf5_file.hpp"

namespace halograd::hdf5_dataset_test {
namespace {

using test::Bytes;
using test::expect_error;
using test::Folder;
using test::write_bytes;

constexpr int height = 2;
constexpr int width = 3;
constexpr int channels = 2;
constexpr int values = height * width * channels;

class File : public test::Hdf5Writer {
 public:
  using Hdf5Writer::Hdf5Writer;

  void add_bytes(const char* name, hsize_t count, const Bytes& data, hsize_t chunk = 0,
                 const std::map<std::string, int>& attributes = {}) const {
    add(name, H5T_STD_U8LE, H5T_NATIVE_UINT8, {count, height, width, channels}, data, {chunk, true}, attributes);
  }
  void add_labels(const char* name, const std::vector<int>& labels,
                  const std::map<std::string, int>& attributes = {}) const {
    add(name, H5T_STD_I64BE, H5T_NATIVE_INT, {labels.size()}, labels, {}, attributes);
  }
};

Bytes ramp(int images) {
  Bytes bytes(static_cast<std::size_t>(images * values));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 % 101);
  return bytes;
}

std::vector<int> cyclic_labels(int images, int classes) {
  std::vector<int> labels(static_cast<std::size_t>(images));
  for (int i = 0; i < images; ++i) labels[static_cast<std::size_t>(i)] = i % classes;
  return labels;
}

std::unique_ptr<Dataset> open(const std::filesystem::path& path, Split split) {
  DataConfig config;
  config.format = "hdf5";
  config.path = path.string();
  return open_dataset(config, split, 1);
}

/// A good file, to be spoilt in one place by what is written instead of a dataset.
void write_set(const std::filesystem::path& path, const std::vector<int>& train_labels = {0, 1, 2, 0, 1},
               const std::vector<int>& test_labels = {2, 1}, const std::map<std::string, int>& label_attributes = {}) {
  const File file(path);
  file.add_bytes("/train/images", 5, ramp(5));
  file.add_labels("/train/labels", train_labels, label_attributes);
  file.add_bytes("/test/images", 2, ramp(2));
  file.add_labels("/test/labels", test_labels);
}

void expect_reads(const Dataset& set, const std::vector<long>& indices, const Bytes& bytes, float maximum,
                  int classes) {
  std::vector<float> images(indices.size() * values, -1);
  std::vector<std::int32_t> labels(indices.size(), -1);
  set.read(indices, images.data(), labels.data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    EXPECT_EQ(labels[i], indices[i] % classes);
    for (std::size_t j = 0; j < values; ++j)
      ASSERT_EQ(images[i * values + j],
                static_cast<float>(bytes[static_cast<std::size_t>(indices[i]) * values + j]) / maximum)
          << "image " << indices[i];
  }
}

TEST(Hdf5Dataset, ReadsAnyImagesInAnyOrder) {
  const Folder folder;
  constexpr int count = 57;
  for (const hsize_t chunk : {0, 4, 57}) {
    const std::filesystem::path path = folder / ("set" + std::to_string(chunk) + ".h5");
    {
      const File file(path);
      file.add_bytes("/train/images", count, ramp(count), chunk, {{"maximum", 100}});
      file.add_labels("/train/labels", cyclic_labels(count, 4));
    }
    const auto set = open(path, Split::train);
    EXPECT_EQ(set->size(), count);
    EXPECT_EQ(set->shape(), (ImageShape{height, width, channels}));
    EXPECT_EQ(set->classes(), 4);
    std::vector<long> all(count);
    std::iota(all.begin(), all.end(), 0L);
    expect_reads(*set, all, ramp(count), 100, 4);
    expect_reads(*set, {56, 0, 13, 14, 12, 40, 13, 56, 2}, ramp(count), 100, 4);  // out of order, twice, in runs
    expect_reads(*set, {7}, ramp(count), 100, 4);
    expect_reads(*set, {}, ramp(count), 100, 4);
  }
}

TEST(Hdf5Dataset, ReadsFloatsAsTheyAre) {
  const Folder folder;
  std::vector<float> data(3 * values);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = 0.37F * static_cast<float>(i) - 2.0F;
  {
    const File file(folder / "set.h5");
    file.add("/train/images", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {3, height, width, channels}, data);
    file.add_labels("/train/labels", {0, 1, 1});
  }
  const auto set = open(folder / "set.h5", Split::train);
  std::vector<float> images(2 * values);
  std::vector<std::int32_t> labels(2);
  set->read(std::vector<long>{2, 0}, images.data(), labels.data());
  for (std::size_t j = 0; j < values; ++j) {
    EXPECT_EQ(images[j], data[2 * values + j]);
    EXPECT_EQ(images[values + j], data[j]);
  }
  EXPECT_EQ(labels, (std::vector<std::int32_t>{1, 0}));
}

TEST(Hdf5Dataset, ReadsVolumesAndRows) {
  const Folder folder;
  const Bytes data = ramp(3);
  const std::vector<std::pair<std::vector<hsize_t>, ImageShape>> cases{{{3, 2, 3, 1, 2}, {2, 3, 1, 2}},
                                                                       {{3, 6, 2}, {6, 2}}};
  for (const auto& [extents, shape] : cases) {
    const std::filesystem::path path = folder / (to_string(shape) + ".h5");
    {
      const File file(path);
      file.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, extents, data);
      file.add_labels("/train/labels", {0, 1, 1});
    }
    const auto set = open(path, Split::train);
    EXPECT_EQ(set->shape(), shape);
    std::vector<float> images(2 * values);
    std::vector<std::int32_t> labels(2);
    set->read(std::vector<long>{2, 0}, images.data(), labels.data());
    for (std::size_t j = 0; j < values; ++j) {
      EXPECT_EQ(images[j], static_cast<float>(data[2 * values + j]) / 255.0F);
      EXPECT_EQ(images[values + j], static_cast<float>(data[j]) / 255.0F);
    }
  }
}

TEST(Hdf5Dataset, RefusesTestImagesThatAreNotFinite) {
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Folder folder;
    std::vector<float> data(3 * values, 0.5F);
    data[2 * values + 5] = broken;
    {
      const File file(folder / "set.h5");
      for (const std::string group : {"/train", "/test"}) {
        file.add((group + "/images").c_str(), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {3, height, width, channels}, data);
        file.add_labels((group + "/labels").c_str(), {0, 1, 1});
      }
    }
    std::vector<float> image(values);
    std::int32_t first = 0;
    open(folder / "set.h5", Split::train)->read(std::vector<long>{2}, image.data(), &first);
    EXPECT_FALSE(std::isfinite(image[5]));  // training decides on them: training.non_finite
    const auto set = open(folder / "set.h5", Split::test);
    std::int32_t label = 0;
    EXPECT_NO_THROW(set->read(std::vector<long>{1}, image.data(), &label));
    expect_error([&] { set->read(std::vector<long>{2}, image.data(), &label); },
                 {"set.h5:/test/images", "image 2", "position 5", "finite"});
  }
}

TEST(Hdf5Dataset, RefusesValuesAboveTheMaximum) {
  const Folder folder;
  Bytes data(3 * values, 16);
  data[values] = 17;
  {
    const File file(folder / "set.h5");
    file.add_bytes("/train/images", 3, data, 0, {{"maximum", 16}});
    file.add_labels("/train/labels", {0, 1, 1});
  }
  const auto set = open(folder / "set.h5", Split::train);
  std::vector<float> image(values);
  std::int32_t label = 0;
  set->read(std::vector<long>{0}, image.data(), &label);
  EXPECT_EQ(image[0], 1.0F);
  expect_error([&] { set->read(std::vector<long>{1}, image.data(), &label); },
               {"set.h5:/train/images", "image 1", "17", "0..16"});
}

TEST(Hdf5Dataset, RefusesLabelsOutOfRange) {
  const Folder folder;
  const std::filesystem::path path = folder / "set.h5";
  write_set(path, {0, 1, 2, -1, 1});
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/labels", "index 3", "-1"});
  write_set(path, {0, 1, 2, 0, 7});
  expect_error([&] { open(path, Split::train); },
               {"set.h5:/train/labels", "index 4", "is 7", "no training image has label 3", "classes"});
  write_set(path, {0, 1, 2, 0, 7}, {2, 8}, {{"classes", 8}});
  EXPECT_EQ(open(path, Split::train)->classes(), 8);
  expect_error([&] { open(path, Split::test); }, {"set.h5:/test/labels", "index 1", "is 8", "0..7"});
  write_set(path, {0, 1, 2, 0, 7}, {2, 1}, {{"classes", 7}});
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/labels", "index 4", "is 7", "0..6"});
}

TEST(Hdf5Dataset, RefusesATruncatedFile) {
  const Folder folder;
  const std::filesystem::path path = folder / "set.h5";
  write_set(path);
  const auto whole = std::filesystem::file_size(path);
  for (const auto kept : {whole - 1, whole / 2, decltype(whole){40}}) {
    std::filesystem::resize_file(path, kept);
    expect_error([&] { open(path, Split::train); },
                 {path.string(), "cannot be opened as HDF5", "(" + std::to_string(kept) + " bytes"});
  }
  std::filesystem::resize_file(path, 0);
  expect_error([&] { open(path, Split::train); }, {path.string(), "not an HDF5 file", "0 bytes"});
}

TEST(Hdf5Dataset, RefusesADamagedChunk) {
  const Folder folder;
  const std::filesystem::path path = folder / "set.h5";
  constexpr int count = 4000;
  Bytes labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::uint8_t>(i % 4);
  Bytes noise(count * values);  // does not compress
  std::minstd_rand random(1);
  for (std::uint8_t& value : noise) value = static_cast<std::uint8_t>(random() >> 8U);
  {
    const File file(path);
    file.add("/train/labels", H5T_STD_U8LE, H5T_NATIVE_UINT8, {count}, labels);
    file.add_bytes("/train/images", count, noise, count);
  }
  // The one chunk is nine tenths of the file, so that its middle lies in it.
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 2));
  stream.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  stream.close();
  const auto set = open(path, Split::train);
  std::vector<float> image(values);
  std::int32_t label = 0;
  expect_error([&] { set->read(std::vector<long>{9}, image.data(), &label); },
               {"set.h5:/train/images", "cannot read images 0 to 3999"});
}

TEST(Hdf5Dataset, SaysWhatIsMissingOrOfAnotherKind) {
  const Folder folder;
  const std::filesystem::path path = folder / "set.h5";
  expect_error([&] { open(path, Split::train); }, {path.string(), "no such file", "/train/images"});
  expect_error([&] { open(folder.path(), Split::train); }, {folder.path().string(), "not a file"});
  write_bytes(path, Bytes(4096, 7));
  expect_error([&] { open(path, Split::train); }, {path.string(), "not an HDF5 file", "signature"});
  {
    const File file(path);
    file.add_labels("/train/labels", {0, 1});
  }
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/images", "no such dataset"});
  expect_error([&] { open(path, Split::test); }, {"set.h5:/test/labels", "no such dataset"});
  {
    const File file(path);
    file.add_labels("/train/labels", {0, 1});
    file.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2, 6}, Bytes(12));
  }
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/images", "2 dimensions", "expected 4 (N,H,W,C)"});
  {
    const File file(path);
    file.add_labels("/train/labels", {0, 1});
    file.add("/train/images", H5T_STD_I16LE, H5T_NATIVE_UINT8, {2, 2, 3, 1}, Bytes(12));
  }
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/images", "neither uint8 nor float32"});
  {
    const File file(path);
    file.add("/train/labels", H5T_STD_B8LE, H5T_STD_B8LE, {2}, Bytes{0, 1});
  }
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/labels", "neither an integer nor a float type"});
  {
    const File file(path);
    file.add_labels("/train/labels", {0, 1});
    file.add_bytes("/train/images", 2, ramp(2), 0, {{"maximum", 256}});
  }
  expect_error([&] { open(path, Split::train); }, {"set.h5:/train/images", "maximum", "256", "1..255"});
}

TEST(Hdf5Dataset, RefusesAnotherNumberOfLabelsThanImages) {
  const Folder folder;
  write_set(folder / "set.h5", {0, 1, 2, 0, 1}, {2, 1, 0});
  expect_error([&] { open(folder / "set.h5", Split::test); }, {"set.h5:/test/images", "holds 2 images", "expected 3"});
}

TEST(Hdf5Dataset, KeepsTheCallersErrorHandler) {
  const Folder folder;
  H5E_auto2_t before = nullptr;
  H5E_auto2_t after = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  write_set(folder / "set.h5");
  std::filesystem::resize_file(folder / "set.h5", 40);
  expect_error([&] { open(folder / "set.h5", Split::train); }, {"cannot be opened as HDF5"});
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(before, after);
}

TEST(Hdf5Dataset, ImagesAloneNeedNoLabels) {
  const Folder folder;
  const auto open_alone = [&](const char* name, Split split) {
    return open_images(data_at((folder / name).string(), DataConfig()), split);
  };
  {
    const File both(folder / "both.h5"), root(folder / "root.h5"), empty(folder / "empty.h5");
    both.add_bytes("/test/images", 2, ramp(2));
    both.add_bytes("/train/images", 5, ramp(5));
    root.add_bytes("/images", 3, ramp(3));
  }
  EXPECT_EQ(open_alone("both.h5", Split::train)->size(), 5);
  const auto test = open_alone("both.h5", Split::test);
  EXPECT_EQ(test->size(), 2);
  EXPECT_EQ(test->labels_per_image(), 0);
  std::vector<float> image(values);
  const std::vector<long> index{1};
  test->read(index, image.data(), nullptr);
  EXPECT_EQ(image[3], static_cast<float>(ramp(2)[values + 3]) / 255);
  EXPECT_EQ(open_alone("root.h5", Split::test)->size(), 3);
  expect_error([&] { open_alone("empty.h5", Split::test); }, {"empty.h5: has no dataset /images or /test/images"});
}

TEST(Hdf5Dataset, TestSetAloneHasTheClassesOfItsLabels) {
  const Folder folder;
  const std::filesystem::path path = folder / "set.h5";
  for (const int classes : {0, 9}) {
    {
      const File file(path);
      file.add_bytes("/test/images", 2, ramp(2));
      file.add_labels("/test/labels", {5, 2},
                      classes > 0 ? std::map<std::string, int>{{"classes", classes}} : std::map<std::string, int>{});
      H5Ldelete(file.id(), "/train", H5P_DEFAULT);
    }
    EXPECT_EQ(open(path, Split::test)->classes(), classes > 0 ? classes : 6);
    expect_error([&] { open(path, Split::train); }, {"set.h5:/train/labels"});
  }
}

}  // namespace
}  // namespace halograd::hdf5_dataset_test
