#include "train/seeds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace halograd {
namespace {

/// One value per pixel.
struct Field {
  std::array<int, 3> extents;
  std::vector<float> values;
  [[nodiscard]] long stride(int axis) const {
    return std::accumulate(extents.begin() + axis + 1, extents.end(), 1L, std::multiplies<>());
  }
};

/// line(values along the axis, of which it may change each) for every line of pixels along an axis.
template <class Line>
void for_each_line(Field& field, int axis, const Line& line) {
  const long stride = field.stride(axis), length = field.extents[axis];
  const auto lines = static_cast<long>(field.values.size()) / length;
  std::vector<float> values(length);
  for (long i = 0; i < lines; ++i) {
    float* const first = &field.values[i / stride * stride * length + i % stride];
    for (long k = 0; k < length; ++k) values[k] = first[k * stride];
    line(values);
    for (long k = 0; k < length; ++k) first[k * stride] = values[k];
  }
}

/// Weights of the value before, of the value and of the value behind; the first and last value go on outside.
void filter(std::vector<float>& line, const std::array<float, 3>& weights) {
  float before = line.front();
  for (std::size_t k = 0; k < line.size(); ++k) {
    const float value = line[k], behind = k + 1 < line.size() ? line[k + 1] : value;
    line[k] = weights[0] * before + weights[1] * value + weights[2] * behind;
    before = value;
  }
}

/// Each value becomes the mean of those within `radius` that there are.
void take_mean(std::vector<float>& line, int radius) {
  const auto length = static_cast<long>(line.size());
  std::vector<double> sums(length + 1);
  for (long k = 0; k < length; ++k) sums[k + 1] = sums[k] + static_cast<double>(line[k]);
  for (long k = 0; k < length; ++k) {
    const long begin = std::max(0L, k - radius), end = std::min(length, k + radius + 1);
    line[k] = static_cast<float>((sums[end] - sums[begin]) / static_cast<double>(end - begin));
  }
}

/// Each value becomes the largest of those within `radius`.
void take_largest(std::vector<float>& line, int radius) {
  const std::vector<float> before = line;
  const auto length = static_cast<long>(line.size());
  for (long k = 0; k < length; ++k) {
    line[k] =
        *std::max_element(before.begin() + std::max(0L, k - radius), before.begin() + std::min(length, k + radius + 1));
  }
}

/// Each value becomes the least of value + distance^2 over the line: the lower envelope of parabolas (Felzenszwalb and
/// Huttenlocher, 2012, algorithm 1).
void take_nearest(std::vector<float>& line) {
  const auto length = static_cast<long>(line.size());
  const std::vector<double> heights(line.begin(), line.end());
  std::vector<long> roots;
  std::vector<double> begins;  // of each root's part of the envelope
  for (long k = 0; k < length; ++k) {
    if (std::isinf(heights[k])) continue;
    double begin = -std::numeric_limits<double>::infinity();
    while (!roots.empty()) {
      const auto root = static_cast<double>(roots.back()), at = static_cast<double>(k);
      begin = (heights[k] + at * at - heights[roots.back()] - root * root) / (2 * (at - root));
      if (begin > begins.back()) break;
      roots.pop_back();
      begins.pop_back();
      begin = -std::numeric_limits<double>::infinity();
    }
    roots.push_back(k);
    begins.push_back(begin);
  }
  if (roots.empty()) return;
  std::size_t part = 0;
  for (long k = 0; k < length; ++k) {
    while (part + 1 < roots.size() && begins[part + 1] < static_cast<double>(k)) ++part;
    const auto distance = static_cast<double>(k - roots[part]);
    line[k] = static_cast<float>(heights[roots[part]] + distance * distance);
  }
}

/// How steep the brightness is at each pixel.
Field steepness(const Field& brightness, int first_axis) {
  Field sum{brightness.extents, std::vector<float>(brightness.values.size())};
  for (int along = first_axis; along < 3; ++along) {
    Field slope = brightness;
    for (int axis = first_axis; axis < 3; ++axis) {
      const std::array<float, 3> weights =
          axis == along ? std::array<float, 3>{-0.5F, 0, 0.5F} : std::array<float, 3>{0.25F, 0.5F, 0.25F};
      for_each_line(slope, axis, [&](std::vector<float>& line) { filter(line, weights); });
    }
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += slope.values[i] * slope.values[i];
  }
  for (float& value : sum.values) value = std::sqrt(value);
  return sum;
}

}  // namespace

std::vector<Pixel> find_seeds(std::span<const float> image, const Shape& shape) {
  constexpr int apart = 3;
  constexpr int mean_radius = 7, means = 3;  // variance 3 * ((2 * 7 + 1)^2 - 1) / 12: a bell of 7.5 pixels' deviation
  const int first_axis = 3 - shape.dimensions;
  Field brightness{shape.extents(), std::vector<float>(static_cast<std::size_t>(shape.pixels()))};
  for (std::size_t i = 0; i < brightness.values.size(); ++i) {
    const auto pixel = image.subspan(i * shape.channels, shape.channels);
    brightness.values[i] = std::accumulate(pixel.begin(), pixel.end(), 0.0F);
  }
  const Field steep = steepness(brightness, first_axis);
  Field around = steep;
  for (int axis = first_axis; axis < 3; ++axis) {
    for_each_line(around, axis, [](std::vector<float>& line) {
      for (int i = 0; i < means; ++i) take_mean(line, mean_radius);
    });
  }
  Field distance{shape.extents(), std::vector<float>(steep.values.size())};
  for (std::size_t i = 0; i < steep.values.size(); ++i) {
    distance.values[i] = steep.values[i] > around.values[i] ? 0 : std::numeric_limits<float>::infinity();
  }
  for (int axis = first_axis; axis < 3; ++axis) for_each_line(distance, axis, take_nearest);
  Field largest = distance;
  for (int axis = first_axis; axis < 3; ++axis) {
    for_each_line(largest, axis, [](std::vector<float>& line) { take_largest(line, apart); });
  }
  std::vector<std::pair<float, long>> peaks;
  for (std::size_t i = 0; i < distance.values.size(); ++i) {
    const float value = distance.values[i];
    if (value > 0 && value == largest.values[i]) peaks.emplace_back(value, static_cast<long>(i));
  }
  std::stable_sort(peaks.begin(), peaks.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Pixel> seeds;
  for (const auto& [value, at] : peaks) {
    const long plane = static_cast<long>(shape.height) * shape.width;
    seeds.push_back(
        {static_cast<int>(at / plane), static_cast<int>(at % plane / shape.width), static_cast<int>(at % shape.width)});
  }
  return seeds;
}

}  // namespace halograd
