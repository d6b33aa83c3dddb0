#include <gtest/gtest.h>

#include "data/data_files.hpp"
#include "data/dataset.hpp"

namespace halograd::cifar_dataset_test {
namespace {

using test::Bytes;
using test::expect_error;
using test::Folder;
using test::write_bytes;

std::uint8_t pixel(int image, int channel, int y, int x) {
  return static_cast<std::uint8_t>(50 * image + 85 * channel + 3 * y + x);
}

/// Records as in the format's description: labels, then 1024 red, 1024 green and 1024 blue values, row by row.
Bytes records(const std::vector<Bytes>& labels, int first = 0) {
  Bytes bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.insert(bytes.end(), labels[i].begin(), labels[i].end());
    for (int channel = 0; channel < 3; ++channel)
      for (int y = 0; y < 32; ++y)
        for (int x = 0; x < 32; ++x) bytes.push_back(pixel(first + static_cast<int>(i), channel, y, x));
  }
  return bytes;
}

std::unique_ptr<Dataset> open(const Folder& folder, const char* format, Split split) {
  DataConfig config;
  config.format = format;
  config.path = folder.path().string();
  return open_dataset(config, split, 1);
}

void write_cifar10(const Folder& folder) {
  for (int i = 1; i <= 5; ++i)
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"),
                records({{static_cast<std::uint8_t>(i)}, {9}}, 2 * (i - 1)));
  write_bytes(folder / "test_batch.bin", records({{4}, {0}, {7}}));
}

void expect_image(const Dataset& set, long index, int image, int label) {
  std::vector<float> values(3072, -1);
  std::int32_t read = -1;
  set.read(std::span<const long>(&index, 1), values.data(), &read);
  EXPECT_EQ(read, label);
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x)
      for (int channel = 0; channel < 3; ++channel)
        ASSERT_EQ(values[static_cast<std::size_t>((y * 32 + x) * 3 + channel)],
                  static_cast<float>(pixel(image, channel, y, x)) / 255.0F);
}

TEST(CifarDataset, ReadsCifar10) {
  const Folder folder;
  write_cifar10(folder);
  const auto train = open(folder, "cifar10", Split::train);
  EXPECT_EQ(train->size(), 10);
  EXPECT_EQ(train->shape(), (ImageShape{32, 32, 3}));
  EXPECT_EQ(train->classes(), 10);
  for (int i = 0; i < 10; ++i) expect_image(*train, i, i, i % 2 == 0 ? i / 2 + 1 : 9);
  const auto test = open(folder, "cifar10", Split::test);
  EXPECT_EQ(test->size(), 3);
  expect_image(*test, 2, 2, 7);
}

TEST(CifarDataset, ReadsCifar100WithFineLabels) {
  const Folder folder;
  write_bytes(folder / "train.bin", records({{19, 99}, {0, 42}}));
  write_bytes(folder / "test.bin", records({{3, 17}}));
  const auto train = open(folder, "cifar100", Split::train);
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(train->classes(), 100);
  expect_image(*train, 0, 0, 99);
  expect_image(*train, 1, 1, 42);
  expect_image(*open(folder, "cifar100", Split::test), 0, 0, 17);
}

TEST(CifarDataset, RefusesATruncatedFile) {
  const Folder folder;
  write_cifar10(folder);
  Bytes bytes = records({{1}, {2}});
  bytes.pop_back();
  write_bytes(folder / "data_batch_3.bin", bytes);
  expect_error([&] { open(folder, "cifar10", Split::train); },
               {"data_batch_3.bin", "6145 bytes", "multiple of 3073", "offset 3073"});
  write_bytes(folder / "test_batch.bin", {});
  expect_error([&] { open(folder, "cifar10", Split::test); }, {"test_batch.bin", "0 bytes"});
}

TEST(CifarDataset, RefusesLabelsOutOfRange) {
  const Folder folder;
  write_cifar10(folder);
  write_bytes(folder / "test_batch.bin", records({{1}, {10}}));
  expect_error([&] { open(folder, "cifar10", Split::test); }, {"test_batch.bin", "offset 3073", "is 10", "0..9"});
  write_bytes(folder / "train.bin", records({{19, 99}, {0, 100}}));
  write_bytes(folder / "test.bin", records({{20, 99}}));
  expect_error([&] { open(folder, "cifar100", Split::train); }, {"train.bin", "offset 3075", "is 100", "0..99"});
  expect_error([&] { open(folder, "cifar100", Split::test); }, {"test.bin", "coarse", "offset 0", "is 20", "0..19"});
}

TEST(CifarDataset, SaysWhatIsMissing) {
  const Folder folder;
  write_cifar10(folder);
  std::filesystem::remove(folder / "data_batch_5.bin");
  expect_error([&] { open(folder, "cifar10", Split::train); },
               {(folder / "data_batch_5.bin").string(), "no such file", "data_batch_1.bin to data_batch_5.bin"});
  expect_error([&] { open(folder, "cifar100", Split::train); }, {"train.bin", "no such file", "cifar-100-binary"});
  std::filesystem::remove_all(folder.path());
  expect_error([&] { open(folder, "cifar10", Split::train); }, {folder.path().string(), "no such folder"});
}

}  // namespace
}  // namespace halograd::cifar_dataset_test
