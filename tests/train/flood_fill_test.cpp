// What grows from a seed, and the batches of fields of view that training sees.
#include "train/flood_fill.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/error.hpp"
#include "train/view_batches.hpp"

namespace halograd::flood_fill_test {
namespace {

FloodFillingConfig config_of(std::vector<int> view, std::vector<int> move) {
  FloodFillingConfig config;
  config.view = std::move(view);
  config.move = std::move(move);
  return config;
}

float logit(double probability) {
  return static_cast<float>(std::log(probability / (1 - probability)));
}

std::string message_of(const FloodFillingConfig& config, const Shape& image) {
  try {
    view_of(config, image);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(FloodFill, SeesTheMaskBeforeTheImage) {
  const Shape image{5, 7, 2};
  EXPECT_EQ(view_of(config_of({3}, {1}), image), Shape(3, 3, 3));
  FloodFill fill(config_of({3, 5}, {1}), image);
  std::vector<float> values(static_cast<std::size_t>(image.values()));
  std::iota(values.begin(), values.end(), 0.0F);
  fill.start({0, 2, 3});
  std::vector<float> view(3 * 5 * 3);
  fill.look({0, 2, 3}, values, view);
  for (int h = 0; h < 3; ++h) {
    for (int w = 0; w < 5; ++w) {
      const float* const pixel = &view[(h * 5 + w) * 3];
      const bool seed = h == 1 && w == 2;
      ASSERT_FLOAT_EQ(pixel[0], logit(seed ? 0.95 : 0.05));
      const auto at = static_cast<float>(((h + 1) * 7 + w + 1) * 2);
      ASSERT_EQ(pixel[1], at);
      ASSERT_EQ(pixel[2], at + 1);
    }
  }
}

// A row of 15 pixels, views of 5, moves of 2: the outputs are large to the right of the seed, and larger near the end.
TEST(FloodFill, MovesToWhereTheObjectIsMostProbable) {
  const Shape image{15, 1};
  FloodFill fill(config_of({5}, {2}), image);
  fill.start({0, 0, 7});
  ASSERT_EQ(fill.next(), (Pixel{0, 0, 7}));
  EXPECT_FALSE(fill.next().has_value());
  fill.take({0, 0, 7}, std::vector<float>{3, 0, 9, 0, 5});
  EXPECT_EQ(fill.mask()[5], 3);
  EXPECT_EQ(fill.mask()[9], 5);
  EXPECT_EQ(fill.next(), (Pixel{0, 0, 9}));  // 5 before 3
  EXPECT_EQ(fill.next(), (Pixel{0, 0, 5}));
  EXPECT_FALSE(fill.next().has_value());
  fill.take({0, 0, 9}, std::vector<float>{9, 0, 0, 0, 2});  // back is where it was; 2 is below the threshold of 2.2
  EXPECT_FALSE(fill.next().has_value());
  fill.take({0, 0, 9}, std::vector<float>{0, 0, 0, 0, 2.3F});
  EXPECT_FALSE(fill.next([](const Pixel& pixel) { return pixel[2] == 11; }).has_value());
  fill.take({0, 0, 9}, std::vector<float>{0, 0, 0, 0, 2.3F});
  EXPECT_EQ(fill.next(), (Pixel{0, 0, 11}));
  fill.take({0, 0, 11}, std::vector<float>{0, 0, 0, 0, 99});
  EXPECT_EQ(fill.mask()[13], 12);         // the most certain
  EXPECT_FALSE(fill.next().has_value());  // no view around pixel 13 lies in the image
  EXPECT_EQ(fill.seen(), (Box{{0, 0, 5}, {1, 1, 14}}));
  fill.start({0, 0, 2});
  for (int w = 0; w < 15; ++w) ASSERT_FLOAT_EQ(fill.mask()[w], logit(w == 2 ? 0.95 : 0.05));
}

TEST(FloodFill, OnAFaceGoesToItsMostProbablePixel) {
  FloodFill fill(config_of({7, 7}, {0, 2}), {20, 20, 1});
  fill.start({0, 10, 10});
  fill.next();
  std::vector<float> logits(49, -3);
  logits[3 * 7 + 5] = 6;  // a move of none up or down: the face right of the centre is this pixel
  logits[2 * 7 + 1] = 8;  // not in reach
  fill.take({0, 10, 10}, logits);
  EXPECT_EQ(fill.next(), (Pixel{0, 10, 12}));
  EXPECT_FALSE(fill.next().has_value());
  FloodFill both(config_of({7, 7}, {2}), {20, 20, 1});
  both.start({0, 10, 10});
  both.next();
  both.take({0, 10, 10}, logits);
  EXPECT_EQ(both.next(), (Pixel{0, 9, 8}));
  EXPECT_EQ(both.next(), (Pixel{0, 10, 12}));
}

TEST(FloodFill, RefusesViewsThatDoNotFit) {
  EXPECT_EQ(message_of(config_of({3, 9}, {1}), {5, 7, 1}),
            "flood_filling.view: a field of view of 3x9x2, with the mask's channel, does not fit into images of 5x7x1");
  EXPECT_EQ(message_of(config_of({3, 3, 3}, {1}), {5, 7, 1}),
            "flood_filling.view has 3 numbers, expected one, or one for each of the 2 spatial axes of the images");
}

/// Two rows of pixels, labelled 0 to the left and 1 to the right; the network says so.
TEST(ViewBatches, FollowEachImageAsFarAsItGoes) {
  const Shape image{13, 1};
  Batch batch;
  batch.size = 2;
  batch.indices = {4, 8};
  for (int i = 0; i < 2; ++i) {
    for (int w = 0; w < 13; ++w) {
      batch.images.push_back(static_cast<float>(100 * i + w));
      batch.labels.push_back(w < 6 ? 0 : 1);
    }
  }
  FloodFillingConfig config = config_of({5}, {2});
  ViewBatches views(config, image, 2);
  std::vector<std::vector<long>> indices;
  std::vector<std::vector<std::int32_t>> labels;
  std::vector<float> first_pixels;
  // the object of image 8 ends at once
  const long shown = views.show(batch, [&](const Batch& seen, std::span<float> logits) {
    indices.push_back(seen.indices);
    labels.push_back(seen.labels);
    for (int i = 0; i < seen.size; ++i) {
      first_pixels.push_back(seen.images[static_cast<std::size_t>(10 * i + 1)]);
      for (int w = 0; w < 5; ++w)
        logits[5 * i + w] = seen.indices[i] == 4 && seen.labels[5 * i + w] == 1 ? 5.0F : -5.0F;
    }
    return true;
  });
  EXPECT_EQ(shown, 4);  // around 6 of both, then 8 and 10 of image 4
  EXPECT_EQ(indices, (std::vector<std::vector<long>>{{4, 8}, {4}, {4}}));
  EXPECT_EQ(labels[0], (std::vector<std::int32_t>{0, 0, 1, 1, 1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(first_pixels, (std::vector<float>{4, 104, 6, 8}));
  config.visits = 2;
  EXPECT_EQ(ViewBatches(config, image, 2)
                .show(batch,
                      [](const Batch& /*seen*/, std::span<float> logits) {
                        std::fill(logits.begin(), logits.end(), 5.0F);
                        return true;
                      }),
            4);
  EXPECT_EQ(views.show(batch, [](const Batch& /*seen*/, std::span<float> /*logits*/) { return false; }), 2);
}

}  // namespace
}  // namespace halograd::flood_fill_test
