#include "data/augment.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "data/data_files.hpp"

namespace halograd::augment_test {
namespace {

using test::expect_error;

std::vector<float> numbered(ImageShape shape) {
  std::vector<float> image(static_cast<std::size_t>(shape.values()));
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i + 1);
  return image;
}

/// What augment() does, said as torchvision's RandomCrop with padding followed by RandomHorizontalFlip does it: the
/// padded image is built, cropped at (top, left), then mirrored.
std::vector<float> padded_crop(const std::vector<float>& image, ImageShape shape, int pad, int top, int left,
                               bool mirror) {
  const int padded_width = shape.width + 2 * pad;
  const int channels = shape.channels;
  std::vector<float> padded(static_cast<std::size_t>((shape.height + 2 * pad) * padded_width * channels), 0.0F);
  for (int y = 0; y < shape.height; ++y)
    for (int x = 0; x < shape.width; ++x)
      for (int c = 0; c < channels; ++c)
        padded[static_cast<std::size_t>(((y + pad) * padded_width + x + pad) * channels + c)] =
            image[static_cast<std::size_t>((y * shape.width + x) * channels + c)];
  std::vector<float> out(image.size());
  for (int y = 0; y < shape.height; ++y)
    for (int x = 0; x < shape.width; ++x)
      for (int c = 0; c < channels; ++c) {
        const int column = mirror ? shape.width - 1 - x : x;
        out[static_cast<std::size_t>((y * shape.width + x) * channels + c)] =
            padded[static_cast<std::size_t>(((y + top) * padded_width + column + left) * channels + c)];
      }
  return out;
}

TEST(Augment, CropsThePaddedImageAndMirrorsIt) {
  for (const ImageShape shape : {ImageShape{5, 4, 3}, ImageShape{3, 7, 1}, ImageShape{4, 4, 2}}) {
    const std::vector<float> image = numbered(shape);
    constexpr int pad = 2;
    for (int top = 0; top <= 2 * pad; ++top)
      for (int left = 0; left <= 2 * pad; ++left)
        for (const bool mirror : {false, true}) {
          std::vector<float> out(image.size(), -1);
          augment(image.data(), shape, {top - pad, left - pad, mirror}, out.data());
          ASSERT_EQ(out, padded_crop(image, shape, pad, top, left, mirror))
              << "top " << top << " left " << left << " mirror " << mirror;
        }
  }
}

TEST(Augment, ShiftsOutOfTheImageGiveZeros) {
  const ImageShape shape{2, 3, 2};
  const std::vector<float> image = numbered(shape);
  for (const Augmentation augmentation :
       {Augmentation{2, 0, false}, Augmentation{-2, 1, true}, Augmentation{0, 3, false}, Augmentation{0, -9, true}}) {
    std::vector<float> out(image.size(), -1);
    augment(image.data(), shape, augmentation, out.data());
    EXPECT_EQ(out, std::vector<float>(image.size(), 0.0F));
  }
}

TEST(Augment, DrawsEveryCropAndMirroringEquallyOften) {
  constexpr int draws = 50000;
  std::map<std::pair<int, int>, int> crops;
  int mirrored = 0;
  for (long image = 0; image < draws; ++image) {
    const Augmentation draw = draw_augmentation(1, 2, image, 2, true);
    ++crops[{draw.down, draw.right}];
    mirrored += draw.mirror ? 1 : 0;
  }
  ASSERT_EQ(crops.size(), 25U);
  // Five standard deviations of a binomial count.
  for (const auto& [offset, count] : crops) {
    EXPECT_LE(std::abs(offset.first), 2);
    EXPECT_LE(std::abs(offset.second), 2);
    EXPECT_NEAR(count, draws / 25.0, 5 * 44);
  }
  EXPECT_NEAR(mirrored, draws / 2.0, 5 * 112);
}

TEST(Augment, DrawIsAFunctionOfSeedEpochAndImage) {
  const auto draws = [](std::uint64_t seed, long epoch) {
    std::vector<int> all;
    for (long image = 0; image < 50; ++image) {
      const Augmentation draw = draw_augmentation(seed, epoch, image, 4, true);
      all.insert(all.end(), {draw.down, draw.right, draw.mirror ? 1 : 0});
    }
    return all;
  };
  EXPECT_EQ(draws(1, 2), draws(1, 2));
  EXPECT_NE(draws(1, 2), draws(1, 3));
  EXPECT_NE(draws(1, 2), draws(2, 2));
  EXPECT_EQ(draw_augmentation(1, 2, 3, 0, false), (Augmentation{0, 0, false}));
}

TEST(Normalisation, TakesMeanAndDeviationPerChannel) {
  const ImageShape shape{2, 3, 2};
  std::vector<float> images = numbered({4, 3, 2});  // two images
  const std::vector<float> before = images;
  Normalisation(shape, {0.5, -1.0}, {2.0, 0.25}).apply(images.data(), 2);
  for (std::size_t i = 0; i < images.size(); ++i)
    EXPECT_EQ(images[i], i % 2 == 0 ? (before[i] - 0.5F) / 2.0F : (before[i] + 1.0F) / 0.25F);
}

TEST(Normalisation, LeavesOutWhatIsNotGiven) {
  const ImageShape shape{1, 2, 2};
  std::vector<float> image = {1, 2, 3, 4};
  Normalisation(shape, {}, {}).apply(image.data(), 1);
  EXPECT_EQ(image, (std::vector<float>{1, 2, 3, 4}));
  Normalisation(shape, {1, 2}, {}).apply(image.data(), 1);
  EXPECT_EQ(image, (std::vector<float>{0, 0, 2, 2}));
  Normalisation(shape, {}, {2, 4}).apply(image.data(), 1);
  EXPECT_EQ(image, (std::vector<float>{0, 0, 1, 0.5F}));
}

TEST(Normalisation, RefusesValuesThatDoNotFit) {
  const ImageShape shape{2, 2, 3};
  expect_error([&] { Normalisation(shape, {0.5}, {}); }, {"data.mean", "has 1", "3 channels"});
  expect_error([&] { Normalisation(shape, {}, {1, 1}); }, {"data.standard_deviation", "has 2", "3 channels"});
  expect_error([&] { Normalisation(shape, {}, {1, 0, 1}); }, {"data.standard_deviation", "0", "positive"});
  expect_error(
      [&] {
        Normalisation(shape, {0, std::numeric_limits<double>::quiet_NaN(), 0}, {});
      },
      {"data.mean", "nan"});
}

}  // namespace
}  // namespace halograd::augment_test
