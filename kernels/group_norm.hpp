#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/rank_sums.hpp"
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

/// Group normalisation (Wu, He, 2018): y = scale (x - mean) / sqrt(var + epsilon) + shift with the mean and biased
/// variance of each group of each sample.
template <class T>
struct GroupNormForward {
  GroupNormShape shape;
  Vector<const T> x{};                     ///< (samples, rows, C)
  Vector<const Wide<T>> scale{}, shift{};  ///< (C)
  double epsilon = 0;
  Vector<Wide<T>> saved_mean{};         ///< (samples, groups); written, for backward
  Vector<Wide<T>> saved_inverse_std{};  ///< (samples, groups); written, for backward
  Vector<T> y{};                        ///< (samples, rows, C); may be x, where backward does not need x
  Vector<double> workspace{};           ///< group_norm_workspace(shape)
  AllRows all{};                        ///< of a sample: mean and variance are those of all ranks' rows
};
/// Sums are in double over a partition that depends on the shape alone. Throws Error for buffers that are too short.
template <class T>
void group_norm_forward(const ExecutionSpace& exec, const GroupNormForward<T>& call);

template <class T>
struct GroupNormBackward {
  GroupNormShape shape;
  Vector<const T> x{}, dy{};                  ///< (samples, rows, C)
  Vector<const Wide<T>> scale{};              ///< (C)
  Vector<const Wide<T>> saved_mean{};         ///< (samples, groups); as forward left it
  Vector<const Wide<T>> saved_inverse_std{};  ///< (samples, groups); as forward left it
  Vector<T> dx{};                      ///< (samples, rows, C), or empty: not computed; may be dy when not accumulating
  Vector<Wide<T>> dscale{}, dshift{};  ///< (C); overwritten
  bool accumulate = false;             ///< adds to dx instead of overwriting it
  Vector<double> workspace{};          ///< group_norm_workspace(shape)
  AllRows all{};                       ///< as forward had it; dscale and dshift are of this rank's rows alone
};
/// Throws Error for buffers that are too short.
template <class T>
void group_norm_backward(const ExecutionSpace& exec, const GroupNormBackward<T>& call);

}  // namespace halograd
