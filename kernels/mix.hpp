#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// The most halos that one pass of mix reads.
constexpr int mix_width = 4;

/// x = self_weight x + sum_{j < count} weights[j] halos[j], all (n), count <= mix_width, in one pass over memory. Sums
/// in that order, rounded once; where self_weight and weights add up to 1, keeps the mean of replicas that exchange
/// with equal weights but for rounding without bias. More neighbours take further passes with self_weight = 1.
struct MixTerms {
  double self_weight = 1;
  int count = 0;
  double weights[mix_width] = {};
  const float* halos[mix_width] = {};  ///< in the execution space's reach
};
void mix(const ExecutionSpace& exec, const MixTerms& terms, Vector<float> x);

/// sum_i (x_i - y_i)^2 in double; fences.
double squared_distance(const ExecutionSpace& exec, Vector<const float> x, Vector<const float> y);

/// sum_i x_i^2 in double; fences.
double squared_length(const ExecutionSpace& exec, Vector<const float> x);

/// y = factor x, both (n); they may be the same.
void scale(const ExecutionSpace& exec, double factor, Vector<const float> x, Vector<float> y);
inline void scale(const ExecutionSpace& exec, double factor, Vector<float> x) {
  scale(exec, factor, x, x);
}

}  // namespace halograd
