#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/data_files.hpp"
#include "data/hdf5_file.hpp"
#include "data/loader.hpp"
#include "data/sharding.hpp"

namespace halograd::streaming_test {
namespace {

using test::Folder;

/// A set of more than one block: image i has 64 x 64 x 1 values of which the first four bytes tell i.
constexpr int side = 64;
constexpr long image_bytes = side * side;

test::Bytes numbered_images(long count) {
  test::Bytes bytes(static_cast<std::size_t>(count * image_bytes));
  for (long i = 0; i < count; ++i)
    for (long j = 0; j < image_bytes; ++j)
      bytes[static_cast<std::size_t>(i * image_bytes + j)] =
          static_cast<std::uint8_t>(j < 4 ? i >> (8 * j) : (i * 7 + j) % 251);
  return bytes;
}

long number_of(const float* image) {
  long number = 0;
  for (int j = 0; j < 4; ++j) number += std::lround(255 * image[j]) << (8 * j);
  return number;
}

void write_set(const std::filesystem::path& path, long count, test::Storage storage) {
  const test::Hdf5Writer file(path);
  const auto images = static_cast<hsize_t>(count);
  file.add("/train/images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {images, side, side, 1}, numbered_images(count), storage);
  file.add("/train/labels", H5T_STD_I32LE, H5T_NATIVE_INT, {images}, std::vector<int>(images, 0), {}, {{"classes", 2}});
}

DataConfig streamed(const std::filesystem::path& path) {
  DataConfig config;
  config.format = "hdf5";
  config.path = path.string();
  config.cache_memory = 0;
  config.shuffle_window = 2;
  return config;
}

LoaderOptions options(int batch, int rank, int ranks) {
  LoaderOptions chosen;
  chosen.global_batch = batch;
  chosen.rank = rank;
  chosen.ranks = ranks;
  chosen.seed = 3;
  return chosen;
}

/// The images of an epoch in the order of their coming; checks their values.
std::vector<long> images_of(Loader& loader, long epoch, long first_step = 0) {
  std::vector<long> images;
  loader.start_epoch(epoch, first_step);
  while (const Batch* batch = loader.next()) {
    for (int i = 0; i < batch->size; ++i) {
      const float* image = batch->images.data() + i * image_bytes;
      images.push_back(number_of(image));
      for (long j = 4; j < image_bytes; ++j)
        if (std::lround(255 * image[j]) != (images.back() * 7 + j) % 251) ADD_FAILURE() << images.back() << " " << j;
    }
  }
  return images;
}

TEST(WindowPermutation, PartsAreDisjointAndCoverTheSet) {
  for (const long size : {1L, 10L, 97L, 1000L}) {
    for (const long block : {1L, 7L, 64L, 1000L}) {
      for (const int ranks : {1, 2, 5}) {
        std::vector<int> seen(static_cast<std::size_t>(size), 0);
        for (int rank = 0; rank < ranks; ++rank) {
          const Range part = share_of(size, rank, ranks);
          const std::vector<long> order = window_permutation(size, block, 3, 1, 0, part);
          EXPECT_EQ(static_cast<long>(order.size()), part.size());
          EXPECT_EQ(order, window_permutation(size, block, 3, 1, 0, part));
          for (const long image : order) ++seen.at(static_cast<std::size_t>(image));
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), size) << size << " " << block << " " << ranks;
      }
    }
  }
}

TEST(WindowPermutation, AWindowHoldsFewBlocksInNoOrder) {
  constexpr long block = 16, window = 4, size = 64 * block;
  const std::vector<long> order = window_permutation(size, block, window, 1, 5, {3, size});
  long neighbours = 0;
  std::set<long> first_blocks;
  std::size_t end = 0;
  for (long width = 1; end < order.size(); width = std::min(width + std::max(1L, width / 2), window)) {
    const std::size_t begin = end;
    std::set<long> blocks;
    end = std::min(order.size(), begin + static_cast<std::size_t>(width * block));
    for (std::size_t i = begin; i < end; ++i) blocks.insert(order[i] / block);
    EXPECT_LE(static_cast<long>(blocks.size()), width + 1);
    for (std::size_t i = begin + 1; i < end; ++i) neighbours += order[i] == order[i - 1] + 1 ? 1 : 0;
    first_blocks.insert(*blocks.begin());
  }
  EXPECT_LT(neighbours, 64);              // of 1020 pairs; about one in 64 by chance
  EXPECT_GT(*first_blocks.rbegin(), 16);  // windows are not made of neighbouring blocks
  EXPECT_NE(order, window_permutation(size, block, window, 1, 6, {3, size}));
  EXPECT_NE(order, window_permutation(size, block, window, 2, 5, {3, size}));
}

TEST(Streaming, RanksReadEveryImageOnceWhateverTheStorage) {
  const Folder folder;
  constexpr long count = 900;  // blocks of 256: one and a half windows
  const std::map<std::string, test::Storage> storages{
      {"contiguous.h5", {}}, {"chunks.h5", {10, false}}, {"large_chunks.h5", {300, false}}, {"packed.h5", {64, true}}};
  for (const auto& [name, storage] : storages) {
    write_set(folder / name, count, storage);
    const auto set = open_dataset(streamed(folder / name), Split::train, 1);
    EXPECT_FALSE(set->in_memory());
    for (const int ranks : {1, 3}) {
      std::vector<int> seen(count, 0);
      for (int rank = 0; rank < ranks; ++rank) {
        Loader loader(*set, streamed(folder / name), options(40, rank, ranks));
        for (const long image : images_of(loader, 0)) ++seen.at(static_cast<std::size_t>(image));
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count) << name << " on " << ranks << " ranks";
    }
  }
}

TEST(Streaming, ResumesAtAnyStepAndRepeatsAnEpoch) {
  const Folder folder;
  write_set(folder / "set.h5", 700, {32, false});
  const DataConfig config = streamed(folder / "set.h5");
  const auto set = open_dataset(config, Split::train, 1);
  Loader loader(*set, config, options(50, 1, 2));
  const std::vector<long> whole = images_of(loader, 4);
  EXPECT_EQ(whole, images_of(loader, 4));
  EXPECT_NE(whole, images_of(loader, 5));
  for (const long step : {1L, 7L, 13L}) {
    const std::vector<long> rest = images_of(loader, 4, step);
    EXPECT_EQ(rest, std::vector<long>(whole.begin() + 25 * step, whole.end()));
  }
  loader.start_epoch(4);  // may be left at any time
  loader.next();
  EXPECT_EQ(images_of(loader, 4), whole);
}

TEST(Streaming, ASetThatFitsIsShuffledWholly) {
  const Folder folder;
  write_set(folder / "set.h5", 700, {32, false});
  DataConfig config = streamed(folder / "set.h5");
  config.cache_memory = 700 * image_bytes;
  const auto set = open_dataset(config, Split::train, 1);
  EXPECT_TRUE(set->in_memory());
  Loader loader(*set, config, options(50, 0, 1));
  EXPECT_EQ(images_of(loader, 2), epoch_permutation(700, 3, 2));
  config.shuffle = "window";
  Loader windows(*set, config, options(50, 0, 1));
  EXPECT_EQ(images_of(windows, 2), window_permutation(700, 256, 2, 3, 2, {0, 700}));
  config.shuffle = "full";
  config.cache_memory = 0;
  const auto beyond = open_dataset(config, Split::train, 1);
  Loader full(*beyond, config, options(50, 0, 1));
  EXPECT_EQ(images_of(full, 2), epoch_permutation(700, 3, 2));
}

TEST(Streaming, ThrottledReadsGiveTheSameImages) {
  const Folder folder;
  write_set(folder / "set.h5", 300, {32, false});
  DataConfig config = streamed(folder / "set.h5");
  config.throttle_mb_per_second = 50;
  const auto set = open_dataset(config, Split::train, 1);
  Loader loader(*set, config, options(20, 0, 1));
  EXPECT_EQ(images_of(loader, 0).size(), 300U);
}

TEST(Streaming, SaysWhereAFileEndsBefore) {
  const Folder folder;
  write_set(folder / "set.h5", 600, {});
  const DataConfig config = streamed(folder / "set.h5");
  const auto set = open_dataset(config, Split::train, 1);
  std::filesystem::resize_file(folder / "set.h5", 1000 * 1000);
  Loader loader(*set, config, options(60, 0, 1));
  test::expect_error([&] { images_of(loader, 0); }, {"set.h5:/train/images", "cannot read images", "the file ends"});
}

TEST(Streaming, EvaluationReadsInOrder) {
  const Folder folder;
  write_set(folder / "set.h5", 600, {32, false});
  const DataConfig config = streamed(folder / "set.h5");
  const auto set = open_dataset(config, Split::train, 1);
  LoaderOptions evaluation = options(90, 1, 2);
  evaluation.training = false;
  Loader loader(*set, config, evaluation);
  std::vector<long> expected(300);
  std::iota(expected.begin(), expected.end(), 300L);
  EXPECT_EQ(images_of(loader, 0), expected);
}

}  // namespace
}  // namespace halograd::streaming_test
