#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace halograd {

/// The larger of `error` and |difference|; infinity where that is no number, which std::max would leave out.
inline double larger_error(double error, double difference) {
  return std::isfinite(difference) ? std::max(error, std::abs(difference)) : INFINITY;
}

/// Holds `gradient` against central differences of `objective`, a smooth function of `values`, at about 60 of them.
inline void expect_gradient(const std::function<double(const std::vector<double>&)>& objective,
                            const std::vector<double>& values, const std::vector<double>& gradient, double tolerance) {
  ASSERT_EQ(values.size(), gradient.size());
  const double step = 1e-5;
  for (std::size_t i = 0; i < values.size(); i += values.size() / 60 + 1) {
    auto up = values, down = values;
    up[i] += step;
    down[i] -= step;
    const double slope = (objective(up) - objective(down)) / (2 * step);
    EXPECT_NEAR(gradient[i], slope, tolerance * (1 + std::abs(slope))) << "value " << i;
  }
}

/// sum_i weights[i] values[i]
inline double dot(const std::vector<double>& weights, const std::vector<double>& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  return sum;
}

}  // namespace halograd
