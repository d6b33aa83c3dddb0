#include "train/tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

namespace halograd::tiles_test {
namespace {

std::vector<float> some_values(long count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

/// body(pixel of the image, pixel of the box, place in the box) for each pixel.
template <class Body>
void for_each_pixel(const Shape& image, const Box& box, const Body& body) {
  long in_box = 0;
  for (int z = box.begin[0]; z < box.end[0]; ++z) {
    for (int y = box.begin[1]; y < box.end[1]; ++y) {
      for (int x = box.begin[2]; x < box.end[2]; ++x, ++in_box) {
        const std::array<int, 3> place{z - box.begin[0], y - box.begin[1], x - box.begin[2]};
        body((static_cast<std::size_t>(z) * image.height + y) * image.width + x, static_cast<std::size_t>(in_box),
             place);
      }
    }
  }
}

/// What the tiles of an image are put together to, each of its pixels once.
class Image {
 public:
  Image(const Tiling& tiling, int width)
      : tiling_(tiling),
        width_(static_cast<std::size_t>(width)),
        blend_(tiling, width, [this](const Box& part, std::span<const float> values) { take(part, values); }) {}

  /// `predictions`: of one tile after the other.
  std::vector<float> of(const std::vector<std::vector<float>>& predictions) {
    const auto pixels = static_cast<std::size_t>(tiling_.image().pixels());
    values_.assign(pixels * width_, 0.0F);
    times_.assign(pixels, 0);
    for (const std::vector<float>& each : predictions) blend_.add(each);
    EXPECT_EQ(times_, std::vector<int>(pixels, 1));
    return values_;
  }

 private:
  void take(const Box& part, std::span<const float> values) {
    EXPECT_EQ(values.size(), static_cast<std::size_t>(part.pixels()) * width_);
    for_each_pixel(tiling_.image(), part, [&](std::size_t to, std::size_t from, const auto&) {
      ++times_[to];
      std::copy_n(values.begin() + static_cast<long>(from * width_), width_,
                  values_.begin() + static_cast<long>(to * width_));
    });
  }

  const Tiling& tiling_;
  std::size_t width_;
  TileBlend blend_;
  std::vector<float> values_;
  std::vector<int> times_;
};

/// All of the image's sums at once, tile by tile.
std::vector<float> whole_means(const Tiling& tiling, int width, const std::vector<std::vector<float>>& predictions) {
  const auto pixels = static_cast<std::size_t>(tiling.image().pixels()), values = static_cast<std::size_t>(width);
  const std::array<int, 3> sizes = tiling.tile().extents();
  std::vector<double> sums(pixels * values), weights(pixels);
  for (long tile = 0; tile < tiling.tiles(); ++tile) {
    for_each_pixel(tiling.image(), tiling.box(tile), [&](std::size_t to, std::size_t from, const auto& place) {
      double weight = 1;
      for (std::size_t axis = 0; axis < 3; ++axis) weight *= std::min(place[axis] + 1, sizes[axis] - place[axis]);
      weights[to] += weight;
      for (std::size_t k = 0; k < values; ++k)
        sums[to * values + k] +=
            weight * static_cast<double>(predictions[static_cast<std::size_t>(tile)][from * values + k]);
    });
  }
  std::vector<float> means(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) means[i] = static_cast<float>(sums[i] / weights[i / values]);
  return means;
}

const std::vector<std::pair<Shape, Shape>> images_and_tiles{{{23, 3}, {5, 3}},
                                                            {{12, 31, 2}, {5, 7, 2}},
                                                            {{7, 40, 2}, {7, 8, 2}},
                                                            {{5, 9, 8, 1}, {3, 4, 8, 1}},
                                                            {{4, 21, 9, 1}, {4, 5, 4, 1}},
                                                            {{6, 5, 70, 1}, {6, 5, 9, 1}},
                                                            {{6, 3}, {6, 3}}};

TEST(Tiling, BlendsToTheBitAsOverTheWholeImage) {
  for (const double overlap : {0.0, 0.25, 0.5, 0.9}) {
    for (const auto& [shape, tile] : images_and_tiles) {
      for (const int width : {1, 3}) {
        const Tiling tiling(shape, tile, overlap);
        Image image(tiling, width);
        for (unsigned number = 0; number < 2; ++number) {  // one image after the other
          std::vector<std::vector<float>> predictions;
          for (long i = 0; i < tiling.tiles(); ++i)
            predictions.push_back(some_values(tile.pixels() * width, 100 * number + static_cast<unsigned>(i)));
          EXPECT_EQ(image.of(predictions), whole_means(tiling, width, predictions))
              << to_string(shape) << " in " << to_string(tile) << ", overlap " << overlap;
        }
      }
    }
  }
}

TEST(Tiling, HandsOnALongImageAFewRowsAtATime) {
  const Tiling tiling({8, 1024, 1024, 1}, {4, 1024, 1024, 1}, 0.0);
  std::vector<Box> parts;
  TileBlend blend(tiling, 1, [&](const Box& part, std::span<const float> values) {
    EXPECT_EQ(values.front(), values.back());
    parts.push_back(part);
  });
  for (const float value : {1.0F, 2.0F}) blend.add(std::vector<float>(4 << 20, value));
  ASSERT_EQ(parts.size(), 8U);
  for (int row = 0; row < 8; ++row)
    EXPECT_EQ(parts[static_cast<std::size_t>(row)], (Box{{row, 0, 0}, {row + 1, 1024, 1024}}));
}

// Six pixels, tiles of four: pixels 0..3 and 2..5. Weights of a tile are 1 2 2 1, so that pixel 2 is two parts of the
// first tile and one of the second, pixel 3 one and two.
TEST(Tiling, NeighboursAreBlendedByTheDistanceToTheirEdges) {
  const Tiling tiling({6, 1}, {4, 1}, 0.5);
  ASSERT_EQ(tiling.tiles(), 2);
  EXPECT_EQ(Image(tiling, 1).of({std::vector<float>(4, 0.0F), std::vector<float>(4, 3.0F)}),
            (std::vector<float>{0, 0, 1, 2, 3, 3}));
}

TEST(Tiling, NeighboursShareAtLeastTheOverlap) {
  for (int length = 8; length < 60; ++length) {
    for (const double overlap : {0.0, 0.25, 0.6}) {
      const Tiling tiling({length, 1}, {8, 1}, overlap);
      int before = 0;  // where the tile before ends
      for (long i = 0; i < tiling.tiles(); ++i) {
        const Box box = tiling.box(i);
        EXPECT_EQ(box.extents()[2], 8);
        EXPECT_TRUE(i == 0 ? box.begin[2] == 0 : before - box.begin[2] >= std::floor(8 * overlap)) << length;
        EXPECT_GT(box.end[2], before);
        before = box.end[2];
      }
      EXPECT_EQ(before, length);
    }
  }
}

TEST(Tiling, TenthsOfATileAreExact) {
  for (int tenths = 0; tenths < 10; ++tenths) {
    for (int size = 10; size <= 200; size += 10) {
      EXPECT_EQ(Tiling({11 * size, 1}, {size, 1}, 0.1 * tenths).tiles(), 1 + (100 + 9 - tenths) / (10 - tenths))
          << size << ", " << tenths;
    }
  }
}

TEST(Tiling, SmallerAndOtherImagesAreRefused) {
  EXPECT_THROW(Tiling({4, 9, 1}, {5, 7, 1}, 0.25), Error);
  EXPECT_THROW(Tiling({9, 9, 3}, {5, 7, 1}, 0.25), Error);
  EXPECT_THROW(Tiling({9, 9, 9, 1}, {5, 7, 1}, 0.25), Error);
}

}  // namespace
}  // namespace halograd::tiles_test
