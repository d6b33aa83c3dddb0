#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Samples of `rows` pixels whose channels fall into `groups` of channels / groups neighbours: x, y (samples, rows, C).
/// Layer normalisation over the channels of each pixel is the case of one row and one group.
struct GroupNormShape {
  long samples = 0;
  long rows = 1;
  int channels = 0;
  int groups = 1;
  [[nodiscard]] long statistics() const { return samples * groups; }
};

/// The doubles of scratch that forward and backward need for up to shape.samples samples.
[[nodiscard]] std::size_t group_norm_workspace(const GroupNormShape& shape);

/// Group normalisation (Wu, He, 2018): y = scale (x - mean) / sqrt(var + epsilon) + shift with mean and biased variance
/// of each group of each sample; scale, shift (C); saved_mean, saved_inverse_std (samples, groups). Sums are in double
/// over a partition that depends on the shape alone. y may be x, where backward does not need x.
template <class T>
void group_norm_forward(const ExecutionSpace& exec, const GroupNormShape& shape, Vector<const T> x,
                        Vector<const T> scale, Vector<const T> shift, double epsilon, Vector<T> saved_mean,
                        Vector<T> saved_inverse_std, Vector<T> y, Vector<double> workspace);

/// dscale, dshift (C) are overwritten; so is dx or, with `accumulate`, added to; an empty dx is not wanted. dx may be
/// dy when not accumulating.
template <class T>
void group_norm_backward(const ExecutionSpace& exec, const GroupNormShape& shape, Vector<const T> x, Vector<const T> dy,
                         Vector<const T> scale, Vector<const T> saved_mean, Vector<const T> saved_inverse_std,
                         Vector<T> dx, Vector<T> dscale, Vector<T> dshift, bool accumulate, Vector<double> workspace);

}  // namespace halograd
