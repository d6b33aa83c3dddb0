#include "convert/image_folder.hpp"

#include <gtest/gtest.h>

#include "data/data_files.hpp"

namespace halograd::image_folder_test {
namespace {

using test::expect_error;
using test::Folder;
using test::write_bytes;

TEST(ImageFolder, ListsImagesInTheOrderOfTheirPaths) {
  const Folder folder;
  for (const char* name : {"b", "a"}) std::filesystem::create_directories(folder / name);
  for (const char* name : {"b/1.png", "a/2.JPG", "a/10.jpeg", "a/notes.txt", "c.png"}) write_bytes(folder / name, {});
  const ImageFolder images(folder.path(), 3, 8, 4);  // none is decoded until it is read
  EXPECT_EQ(images.names(), (std::vector<std::string>{"a/10.jpeg", "a/2.JPG", "b/1.png", "c.png"}));
  EXPECT_EQ(images.size(), 4);
  EXPECT_EQ(images.shape(), (ImageShape{8, 4, 3}));
  EXPECT_EQ(images.labels_per_image(), 0);
  std::vector<float> values(8 * 4 * 3);
  const std::vector<long> index{2};
  expect_error([&] { images.read(index, values.data(), nullptr); }, {"b/1.png", "is empty"});
}

TEST(ImageFolder, RefusesWhatHoldsNoImagesThatFit) {
  const Folder folder;
  expect_error([&] { ImageFolder(folder.path(), 3); }, {folder.path().string(), "holds no images"});
  expect_error([&] { ImageFolder(folder.path(), 2); }, {folder.path().string(), "1 channel or 3", "have 2"});
}

}  // namespace
}  // namespace halograd::image_folder_test
