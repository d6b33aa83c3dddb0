#include "data/object_fields.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/data_files.hpp"

namespace halograd::object_fields_test {
namespace {

using test::expect_error;

constexpr int side = 40;
const Shape volume(side, side, side, 1);
const std::array<int, 3> field{9, 8, 7};
constexpr double pixels = 9 * 8 * 7;
using Shares = std::array<double, ObjectFields::ranges>;

/// Object 1 fills half of the volume; 2 is a plate, 3 to 18 are rods, and the others cubes that grow from one voxel on.
std::uint32_t object_at(int d, int h, int w) {
  if (d < side / 2) return 1;
  if (d == 22 || d == 23) return 2;
  if (d < 30) return h % 10 < 2 && d % 3 < 2 && d > 25 ? 3 + static_cast<std::uint32_t>(h / 10 + 4 * (d / 3 - 8)) : 0;
  const int cube = h / 8 + 5 * (w / 8), length = 1 + cube % 7;
  return h % 8 < length && w % 8 < length && d >= 32 && d < 32 + length ? 30 + static_cast<std::uint32_t>(cube) : 0;
}

std::vector<std::uint32_t> objects() {
  std::vector<std::uint32_t> values;
  for (int d = 0; d < side; ++d) {
    for (int h = 0; h < side; ++h) {
      for (int w = 0; w < side; ++w) values.push_back(object_at(d, h, w));
    }
  }
  return values;
}

/// Voxels of a field whose first voxel lies here that belong to the object of the central one.
int voxels_of_centre(int d, int h, int w) {
  const std::uint32_t object = object_at(d + field[0] / 2, h + field[1] / 2, w + field[2] / 2);
  int count = 0;
  for (int z = d; z < d + field[0]; ++z) {
    for (int y = h; y < h + field[1]; ++y) {
      for (int x = w; x < w + field[2]; ++x) count += object_at(z, y, x) == object ? 1 : 0;
    }
  }
  return count;
}

/// The shares of ranges, by a plain count, where each possible centre comes once.
Shares unbalanced() {
  Shares shares{};
  for (int d = 0; d + field[0] <= side; ++d) {
    for (int h = 0; h + field[1] <= side; ++h) {
      for (int w = 0; w + field[2] <= side; ++w) {
        if (object_at(d + field[0] / 2, h + field[1] / 2, w + field[2] / 2) == 0) continue;
        const double filled = voxels_of_centre(d, h, w) / pixels;
        const auto below = [filled](double bound) { return filled >= bound; };
        shares[static_cast<std::size_t>(
            std::count_if(ObjectFields::bounds.begin(), ObjectFields::bounds.end(), below))] += 1;
      }
    }
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  return shares;
}

double distance_from_flat(const Shares& shares) {
  double distance = 0;
  for (const double share : shares) distance += std::abs(share - 1.0 / ObjectFields::ranges) / 2;
  return distance;
}

TEST(ObjectFields, AreBalancedByTheFractionThatTheirObjectFills) {
  const ObjectFields fields(volume, field, objects(), 0, 1, "here");
  constexpr int count = 2000;
  Shares shares{};
  for (long i = 0; i < count; ++i) shares[ObjectFields::range_of(fields.draw(i).filled)] += 1.0 / count;
  const Shares all = unbalanced();
  EXPECT_GT(distance_from_flat(all), 0.5);     // else there is nothing to balance
  EXPECT_LT(distance_from_flat(shares), 0.4);  // two ranges are empty, three rare
  for (std::size_t range = 0; range < shares.size(); ++range) {
    // within five standard deviations of what 32 draws find
    const double found = 1 - std::pow(1 - all[range], 32);
    EXPECT_GE(shares[range], found / ObjectFields::ranges - 5 * std::sqrt(found / ObjectFields::ranges / count))
        << "range " << range << ", of all centres " << all[range];
  }
}

TEST(ObjectFields, HaveLabelsAndAFractionOfTheirCentralObject) {
  const ObjectFields fields(volume, field, objects(), 0, 2, "here");
  std::vector<std::int32_t> labels(static_cast<std::size_t>(pixels));
  for (long i = 0; i < 100; ++i) {
    const ObjectField drawn = fields.draw(i);
    ASSERT_EQ(drawn.volume, 0);
    ASSERT_TRUE(Box::whole(volume).holds(drawn.box));
    ASSERT_EQ(drawn.box.extents(), field);
    const auto [d, h, w] = drawn.box.begin;
    ASSERT_NE(drawn.object, 0U);
    ASSERT_EQ(drawn.object, object_at(d + field[0] / 2, h + field[1] / 2, w + field[2] / 2));
    const int voxels = voxels_of_centre(d, h, w);
    ASSERT_DOUBLE_EQ(drawn.filled, voxels / pixels);
    fields.label(drawn, labels.data());
    ASSERT_EQ(std::accumulate(labels.begin(), labels.end(), 0), voxels);
  }
}

TEST(ObjectFields, AreAFunctionOfKeyAndIndex) {
  const ObjectFields first(volume, field, objects(), 0, 3, "here"), second(volume, field, objects(), 0, 3, "here"),
      other(volume, field, objects(), 0, 4, "here");
  int different = 0;
  for (long i = 99; i >= 0; --i) {
    EXPECT_EQ(first.draw(i).box, second.draw(i).box);
    different += first.draw(i).box != other.draw(i).box ? 1 : 0;
  }
  EXPECT_GT(different, 90);
}

TEST(ObjectFields, OnlyThoseInsideTheirVolumeAreDrawn) {
  std::vector<std::uint32_t> values(2UL * 5 * 6, 0);
  const Shape image(5, 6, 1);
  const auto draw_in = [&](const std::array<int, 3>& extents) {
    return ObjectFields(image, extents, values, 0, 1, "a.h5:/train/objects").draw(0);
  };
  values[0] = values[29] = values[30 + 5] = 7;  // at corners: only a field of one voxel has its centre there
  expect_error([&] { draw_in({1, 3, 3}); }, {"a.h5:/train/objects", "no object that a field of 3x3x1"});
  EXPECT_NO_THROW(draw_in({1, 1, 1}));
  values[30 + 2 * 6 + 4] = 9;
  const ObjectField only = draw_in({1, 4, 3});
  EXPECT_EQ(only.volume, 1);
  EXPECT_EQ(only.object, 9U);
  EXPECT_EQ(only.box, (Box{{0, 0, 3}, {1, 4, 6}}));
  EXPECT_DOUBLE_EQ(only.filled, 1.0 / 12);
  expect_error(
      [&] {
        draw_in({1, 6, 3});
      },
      {"a.h5:/train/objects", "fields of 6x3x1", "data.objects_field", "volumes of 5x6x1"});
}

TEST(ObjectFields, RangesAreThoseOfThePublication) {
  const std::vector<std::pair<double, std::size_t>> expected{{0.0, 0},  {0.024, 0}, {0.025, 1},  {0.06, 2}, {0.09, 3},
                                                             {0.15, 4}, {0.55, 8},  {0.899, 11}, {0.9, 12}, {1.0, 12}};
  for (const auto& [filled, range] : expected) EXPECT_EQ(ObjectFields::range_of(filled), range) << filled;
}

TEST(ObjectFields, AShareIsCentredOnNoObject) {
  const ObjectFields fields(volume, field, objects(), 0.3, 4, "here");
  std::vector<std::int32_t> labels(static_cast<std::size_t>(pixels));
  int empty = 0;
  constexpr int draws = 2000;
  for (int i = 0; i < draws; ++i) {
    const ObjectField drawn = fields.draw(i);
    const auto [d, h, w] = drawn.box.begin;
    ASSERT_EQ(drawn.object, object_at(d + field[0] / 2, h + field[1] / 2, w + field[2] / 2));
    fields.label(drawn, labels.data());
    if (drawn.object != 0) continue;
    ++empty;
    ASSERT_EQ(std::count(labels.begin(), labels.end(), 0), static_cast<long>(pixels));
  }
  EXPECT_NEAR(empty, 0.3 * draws, 4 * std::sqrt(0.3 * 0.7 * draws));
}

}  // namespace
}  // namespace halograd::object_fields_test
