#include "train/seeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace halograd::seeds_test {
namespace {

/// Bright balls in the dark.
std::vector<float> balls(const Shape& shape, const std::vector<Pixel>& centres, double radius) {
  std::vector<float> image;
  for (int d = 0; d < shape.depth; ++d) {
    for (int h = 0; h < shape.height; ++h) {
      for (int w = 0; w < shape.width; ++w) {
        const bool inside = std::any_of(centres.begin(), centres.end(), [&](const Pixel& c) {
          return std::hypot(d - c[0], h - c[1], w - c[2]) <= radius;
        });
        for (int channel = 0; channel < shape.channels; ++channel) image.push_back(inside ? 1.0F : -1.0F);
      }
    }
  }
  return image;
}

TEST(Seeds, LieInTheMiddleOfObjects) {
  const std::vector<Pixel> centres{{9, 9, 9}, {9, 24, 30}};
  const Shape shape{20, 34, 40, 2};
  const std::vector<Pixel> seeds = find_seeds(balls(shape, centres, 6), shape);
  for (const Pixel& centre : centres)
    EXPECT_NE(std::find(seeds.begin(), seeds.end(), centre), seeds.end()) << centre[1] << " " << centre[2];
}

// One edge in a row of pixels: distances are known. Both sides end in a seed, the longer side's first.
TEST(Seeds, AreFarFromEdges) {
  std::vector<float> row(40, 0.0F);
  std::fill(row.begin() + 15, row.end(), 1.0F);
  const std::vector<Pixel> seeds = find_seeds(row, {40, 1});
  ASSERT_EQ(seeds.size(), 2U);
  EXPECT_EQ(seeds[0], (Pixel{0, 0, 39}));
  EXPECT_EQ(seeds[1], (Pixel{0, 0, 0}));
}

// In a plane against the definition: no other pixel within 3 along each axis lies further from the square's edges.
TEST(Seeds, OfAPlaneHaveItsAxesAlone) {
  const Shape shape{41, 41, 1};
  std::vector<float> image(41 * 41, 0.0F);
  for (int h = 10; h < 31; ++h) std::fill_n(&image[h * 41 + 10], 21, 1.0F);
  const std::vector<Pixel> seeds = find_seeds(image, shape);
  EXPECT_NE(std::find(seeds.begin(), seeds.end(), (Pixel{0, 20, 20})), seeds.end());
  for (const Pixel& seed : seeds) {
    const bool inside = seed[1] > 10 && seed[1] < 30 && seed[2] > 10 && seed[2] < 30;
    EXPECT_TRUE(!inside || seed == (Pixel{0, 20, 20})) << seed[1] << " " << seed[2];
  }
}

}  // namespace
}  // namespace halograd::seeds_test
