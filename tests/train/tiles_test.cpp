#include "train/tiles.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "kernels/error.hpp"

namespace halograd::tiles_test {
namespace {

std::vector<float> some_values(long count) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

/// Tiles whose prediction is the image: what is put together again.
std::vector<float> put_together(const Tiling& tiling, const Shape& tile, const std::vector<float>& image) {
  std::vector<double> sums(image.size());
  std::vector<float> part(static_cast<std::size_t>(tile.values())), out(image.size());
  for (long i = 0; i < tiling.tiles(); ++i) {
    tiling.cut(image, i, part.data());
    tiling.add(part, i, tile.channels, sums);
  }
  tiling.finish(sums, tile.channels, out);
  return out;
}

TEST(Tiling, ImagesOfATileAreOneTileAndStayAsTheyAre) {
  for (const Shape& shape : {Shape{6, 3}, Shape{5, 7, 2}, Shape{3, 4, 5, 1}}) {
    const Tiling tiling(shape, shape, 0.5);
    EXPECT_EQ(tiling.tiles(), 1);
    const std::vector<float> image = some_values(shape.values());
    EXPECT_EQ(put_together(tiling, shape, image), image) << to_string(shape);
  }
}

TEST(Tiling, CoverAllOfTheImage) {
  for (const double overlap : {0.0, 0.25, 0.5, 0.9}) {
    for (const auto& [image, tile] : {std::pair{Shape{23, 3}, Shape{5, 3}}, std::pair{Shape{12, 31, 2}, Shape{5, 7, 2}},
                                      std::pair{Shape{5, 9, 8, 1}, Shape{3, 4, 8, 1}}}) {
      const Tiling tiling(image, tile, overlap);
      const std::vector<float> values = some_values(image.values());
      const std::vector<float> again = put_together(tiling, tile, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(again[i], values[i], 1e-6 * std::abs(values[i])) << to_string(image) << ", overlap " << overlap;
    }
  }
}

// Six pixels, tiles of four: pixels 0..3 and 2..5. Weights of a tile are 1 2 2 1, so that pixel 2 is two parts of the
// first tile and one of the second, pixel 3 one and two.
TEST(Tiling, NeighboursAreBlendedByTheDistanceToTheirEdges) {
  const Tiling tiling({6, 1}, {4, 1}, 0.5);
  ASSERT_EQ(tiling.tiles(), 2);
  std::vector<double> sums(6);
  tiling.add(std::vector<float>(4, 0.0F), 0, 1, sums);
  tiling.add(std::vector<float>(4, 3.0F), 1, 1, sums);
  std::vector<float> out(6);
  tiling.finish(sums, 1, out);
  EXPECT_EQ(out, (std::vector<float>{0, 0, 1, 2, 3, 3}));
}

TEST(Tiling, NeighboursShareAtLeastTheOverlap) {
  for (int length = 8; length < 60; ++length) {
    for (const double overlap : {0.0, 0.25, 0.6}) {
      const Tiling tiling({length, 1}, {8, 1}, overlap);
      std::vector<float> positions(static_cast<std::size_t>(length));
      std::iota(positions.begin(), positions.end(), 0.0F);
      std::vector<float> tile(8);
      float before = -1;
      for (long i = 0; i < tiling.tiles(); ++i) {
        tiling.cut(positions, i, tile.data());
        EXPECT_TRUE(i == 0 || before + 1 - tile.front() >= std::floor(8 * overlap)) << length;
        EXPECT_GT(tile.back(), before);
        before = tile.back();
      }
      EXPECT_EQ(before, static_cast<float>(length - 1));
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
