#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/data_files.hpp"
#include "data/dataset.hpp"

namespace halograd::synthetic_dataset_test {
namespace {

using test::expect_error;

DataConfig synthetic() {
  DataConfig config;
  config.format = "synthetic";
  config.synthetic_train = 400;
  config.synthetic_test = 100;
  config.synthetic_shape = {12, 10, 2};
  config.synthetic_classes = 5;
  return config;
}

std::vector<float> read_all(const Dataset& set, std::vector<std::int32_t>* labels = nullptr) {
  std::vector<long> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0L);
  std::vector<float> images(indices.size() * static_cast<std::size_t>(set.shape().values()));
  std::vector<std::int32_t> read(indices.size());
  set.read(indices, images.data(), read.data());
  if (labels != nullptr) *labels = read;
  return images;
}

TEST(SyntheticDataset, IsAsConfigured) {
  const auto train = open_dataset(synthetic(), Split::train, 1);
  const auto test = open_dataset(synthetic(), Split::test, 1);
  EXPECT_EQ(train->size(), 400);
  EXPECT_EQ(test->size(), 100);
  EXPECT_EQ(train->shape(), (ImageShape{12, 10, 2}));
  EXPECT_EQ(train->classes(), 5);
  std::vector<std::int32_t> labels;
  for (const float value : read_all(*train, &labels)) {
    ASSERT_GE(value, 0.0F);
    ASSERT_LE(value, 1.0F);
  }
  for (int label = 0; label < 5; ++label) EXPECT_EQ(std::count(labels.begin(), labels.end(), label), 80);
}

TEST(SyntheticDataset, IsAFunctionOfSeedSplitAndIndex) {
  const auto train = open_dataset(synthetic(), Split::train, 1);
  const std::vector<float> images = read_all(*train);
  EXPECT_EQ(images, read_all(*open_dataset(synthetic(), Split::train, 1)));
  EXPECT_NE(images, read_all(*open_dataset(synthetic(), Split::train, 2)));
  std::vector<float> one(240);
  std::int32_t label = -1;
  train->read(std::vector<long>{123}, one.data(), &label);
  EXPECT_EQ(one, std::vector<float>(images.begin() + 123 * 240, images.begin() + 124 * 240));
  EXPECT_EQ(label, 123 % 5);
  const std::vector<float> test = read_all(*open_dataset(synthetic(), Split::test, 1));
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_FALSE(std::equal(test.begin() + static_cast<long>(240 * i), test.begin() + static_cast<long>(240 * (i + 1)),
                            images.begin() + static_cast<long>(240 * i)));
}

/// The class is in the picture, and the same for both splits: the mean training image of each class names the test
/// images.
TEST(SyntheticDataset, CanBeLearnt) {
  std::vector<std::int32_t> train_labels;
  std::vector<std::int32_t> test_labels;
  const std::vector<float> train = read_all(*open_dataset(synthetic(), Split::train, 1), &train_labels);
  const std::vector<float> test = read_all(*open_dataset(synthetic(), Split::test, 1), &test_labels);
  std::vector<double> means(5 * 240);
  for (std::size_t i = 0; i < train_labels.size(); ++i)
    for (std::size_t j = 0; j < 240; ++j)
      means[static_cast<std::size_t>(train_labels[i]) * 240 + j] += train[i * 240 + j] / 80;
  int right = 0;
  for (std::size_t i = 0; i < test_labels.size(); ++i) {
    std::vector<double> distances(5);
    for (std::size_t label = 0; label < 5; ++label)
      for (std::size_t j = 0; j < 240; ++j) {
        const double difference = means[label * 240 + j] - test[i * 240 + j];
        distances[label] += difference * difference;
      }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == test_labels[i] ? 1 : 0;
  }
  EXPECT_GE(right, 98);
}

TEST(SyntheticDataset, MakesRowsAndVolumes) {
  DataConfig config = synthetic();
  for (const auto& [given, shape] : {std::pair<std::vector<int>, ImageShape>{{24, 2}, {24, 2}},
                                     std::pair<std::vector<int>, ImageShape>{{3, 4, 2, 2}, {3, 4, 2, 2}}}) {
    config.synthetic_shape = given;
    const auto set = open_dataset(config, Split::train, 1);
    EXPECT_EQ(set->shape(), shape);
    const std::vector<float> images = read_all(*set);
    EXPECT_GT(*std::max_element(images.begin(), images.end()), 0.9F);
    EXPECT_LT(*std::min_element(images.begin(), images.end()), 0.1F);
  }
  // The planes of a volume differ by more than their noise.
  const std::vector<float> volumes = read_all(*open_dataset(config, Split::train, 1));
  double change = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    double first = 0, second = 0;
    for (std::size_t image = 0; image < 400; image += 5) {
      first += volumes[image * 48 + i] / 80;
      second += volumes[image * 48 + 16 + i] / 80;
    }
    change = std::max(change, std::abs(second - first));
  }
  EXPECT_GT(change, 0.15);  // the mean of 80 noises deviates by 0.016
}

TEST(SyntheticDataset, RefusesEmptySetsAndUnknownFormats) {
  DataConfig config = synthetic();
  config.synthetic_shape = {12, 0, 2};
  expect_error([&] { open_dataset(config, Split::train, 1); }, {"data.synthetic_shape", "[12, 0, 2]"});
  config = synthetic();
  config.synthetic_classes = 0;
  expect_error([&] { open_dataset(config, Split::train, 1); }, {"data.synthetic_classes is 0"});
  config = synthetic();
  config.synthetic_test = 0;
  expect_error([&] { open_dataset(config, Split::test, 1); }, {"data.synthetic_test is 0"});
  config.format = "png";
  config.path = "somewhere";
  expect_error([&] { open_dataset(config, Split::train, 1); }, {"data.format is \"png\"", "idx, cifar10"});
  config.format = "idx";
  config.path = "";
  expect_error([&] { open_dataset(config, Split::train, 1); }, {"data.path is empty", "idx"});
}

}  // namespace
}  // namespace halograd::synthetic_dataset_test
