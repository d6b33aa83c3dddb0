#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "data/dataset.hpp"

namespace halograd::digits_test {
namespace {

std::unique_ptr<Dataset> open(Split split) {
  DataConfig config;
  config.format = "hdf5";
  config.path = HALOGRAD_SOURCE_DIR "/inputs/digits.h5";
  return open_dataset(config, split, 1);
}

struct Images {
  std::vector<float> values;
  std::vector<std::int32_t> labels;
};

Images read_all(const Dataset& set) {
  std::vector<long> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0L);
  Images images{std::vector<float>(indices.size() * static_cast<std::size_t>(set.shape().values())),
                std::vector<std::int32_t>(indices.size())};
  set.read(indices, images.values.data(), images.labels.data());
  return images;
}

TEST(Digits, AreThoseThatUciDescribes) {
  const auto train = open(Split::train);
  const auto test = open(Split::test);
  EXPECT_EQ(train->size() + test->size(), 1797);
  EXPECT_EQ(train->shape(), (ImageShape{8, 8, 1}));
  EXPECT_EQ(test->shape(), train->shape());
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(test->classes(), 10);
  const std::array<int, 10> described = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};  // optdigits.names
  std::array<int, 10> found{};
  for (const Dataset* set : {train.get(), test.get()}) {
    const Images images = read_all(*set);
    for (const std::int32_t label : images.labels) ++found[static_cast<std::size_t>(label)];
    for (const float value : images.values) {
      ASSERT_GE(value, 0.0F);
      ASSERT_LE(value, 1.0F);
      ASSERT_EQ(value * 16, static_cast<float>(static_cast<int>(value * 16)));
    }
  }
  EXPECT_EQ(found, described);
}

/// The description gives 98.00 % for the nearest neighbour from its larger training set; that labels belong to their
/// images shows in nothing better.
TEST(Digits, AreToldApartByTheNearestNeighbour) {
  const Images train = read_all(*open(Split::train));
  const Images test = read_all(*open(Split::test));
  int right = 0;
  for (std::size_t i = 0; i < test.labels.size(); ++i) {
    float nearest = 1e30F;
    std::int32_t label = -1;
    for (std::size_t j = 0; j < train.labels.size(); ++j) {
      float distance = 0;
      for (std::size_t k = 0; k < 64; ++k) {
        const float difference = test.values[64 * i + k] - train.values[64 * j + k];
        distance += difference * difference;
      }
      if (distance < nearest) {
        nearest = distance;
        label = train.labels[j];
      }
    }
    right += label == test.labels[i] ? 1 : 0;
  }
  EXPECT_GE(right, static_cast<int>(0.97 * static_cast<double>(test.labels.size())));
}

}  // namespace
}  // namespace halograd::digits_test
