#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "data/dataset.hpp"
#include "data/loader.hpp"

namespace halograd::synthetic_volumes_test {
namespace {

DataConfig tubes() {
  DataConfig config;
  config.format = "synthetic";
  config.synthetic_train = 24;
  config.synthetic_test = 8;
  config.synthetic_shape = {6, 9, 7, 2};
  config.synthetic_labels = "pixel";
  return config;
}

constexpr std::size_t pixels = 6UL * 9 * 7;

struct Read {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

Read read(const Dataset& set) {
  std::vector<long> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0L);
  Read all{std::vector<float>(indices.size() * pixels * 2), std::vector<std::int32_t>(indices.size() * pixels, -1)};
  set.read(indices, all.images.data(), all.labels.data());
  return all;
}

TEST(SyntheticVolumes, HaveALabelForEachPixelAndAreBrighterInTubes) {
  const auto set = open_dataset(tubes(), Split::train, 1);
  EXPECT_EQ(set->shape(), (ImageShape{6, 9, 7, 2}));
  EXPECT_EQ(set->classes(), 2);
  EXPECT_EQ(set->labels_per_image(), static_cast<long>(pixels));
  const Read all = read(*set);
  double brightness[2] = {}, count[2] = {};
  for (std::size_t i = 0; i < all.labels.size(); ++i) {
    ASSERT_TRUE(all.labels[i] == 0 || all.labels[i] == 1);
    count[all.labels[i]] += 1;
    brightness[all.labels[i]] += all.images[2 * i];
  }
  EXPECT_GT(count[1], 0.05 * static_cast<double>(all.labels.size()));
  EXPECT_LT(count[1], 0.6 * static_cast<double>(all.labels.size()));
  EXPECT_NEAR(brightness[0] / count[0], 0.35, 0.02);
  EXPECT_NEAR(brightness[1] / count[1], 0.65, 0.02);
}

TEST(SyntheticVolumes, AreAFunctionOfSeedSplitAndIndex) {
  const Read first = read(*open_dataset(tubes(), Split::train, 1));
  EXPECT_EQ(first.images, read(*open_dataset(tubes(), Split::train, 1)).images);
  EXPECT_NE(first.labels, read(*open_dataset(tubes(), Split::train, 2)).labels);
  const auto set = open_dataset(tubes(), Split::train, 1);
  std::vector<float> image(pixels * 2);
  std::vector<std::int32_t> labels(pixels);
  set->read(std::vector<long>{5}, image.data(), labels.data());
  EXPECT_EQ(labels, std::vector<std::int32_t>(first.labels.begin() + 5 * pixels, first.labels.begin() + 6 * pixels));
}

/// A pixel's label must move with it: brightness and label still belong together, and padding is label 0.
TEST(SyntheticVolumes, LabelsAreCroppedAndMirroredWithTheirImages) {
  DataConfig config = tubes();
  config.pad_crop = 3;
  config.flip = true;
  const auto set = open_dataset(config, Split::train, 1);
  LoaderOptions options;
  options.global_batch = 24;
  Loader loader(*set, config, options);
  loader.start_epoch(0);
  const Batch* batch = loader.next();
  ASSERT_NE(batch, nullptr);
  ASSERT_EQ(batch->labels.size(), 24 * pixels);
  std::size_t padding = 0;
  for (std::size_t i = 0; i < batch->labels.size(); ++i) {
    const float value = batch->images[2 * i];
    if (batch->labels[i] == 1) {
      ASSERT_GE(value, 0.3F) << i;  // the least brightness of a tube
    } else {
      ASSERT_LE(value, 0.7F) << i;  // the largest beside it
      padding += value == 0 && batch->images[2 * i + 1] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(padding, 0U);
}

}  // namespace
}  // namespace halograd::synthetic_volumes_test
