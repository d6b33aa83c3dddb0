#pragma once

#include <array>

#include "kernels/bfloat16.hpp"
#include "kernels/types.hpp"

namespace halograd {

/// Some channels of each pixel of a tensor (rows, C): `count` of them from `first` on.
struct ChannelRange {
  int channels = 0;  ///< C
  int first = 0;
  int count = 0;
};

/// Copies a range of channels into one of the same count; with `accumulate`, adds it. Concatenation forward and
/// backward. x (rows, from.channels), y (rows, to.channels).
template <class T>
void copy_channels(const ExecutionSpace& exec, long rows, const ChannelRange& from, Vector<const T> x,
                   const ChannelRange& to, Vector<T> y, bool accumulate);

/// y (rows, C) = bias (C) in every row.
template <class T>
void broadcast_channels(const ExecutionSpace& exec, long rows, int channels, Vector<const Wide<T>> bias, Vector<T> y);

/// The doubles of scratch that sum_channels needs for up to `rows` rows.
[[nodiscard]] std::size_t sum_channels_workspace(long rows, int channels);

/// sum (C) = the sum over the rows of x (rows, C), in double over a partition that depends on the shape alone.
template <class T>
void sum_channels(const ExecutionSpace& exec, long rows, int channels, Vector<const T> x, Vector<Wide<T>> sum,
                  Vector<double> workspace);

/// Each pixel of x (N, D, H, W, C) `factor` times along each axis: y (N, D factor[0], H factor[1], W factor[2], C).
struct UpsampleShape {
  int batch = 0;
  std::array<int, 3> extent{1, 1, 1};  ///< of x
  int channels = 0;
  std::array<int, 3> factor{1, 1, 1};
  /// Copies that are left out along each axis, before and behind: fewer than factor. y has the extents that are left.
  std::array<int, 3> before{0, 0, 0}, behind{0, 0, 0};
  [[nodiscard]] std::array<int, 3> out_extent() const {
    std::array<int, 3> out{};
    for (int axis = 0; axis < 3; ++axis) out[axis] = extent[axis] * factor[axis] - before[axis] - behind[axis];
    return out;
  }
};
template <class T>
void upsample_forward(const ExecutionSpace& exec, const UpsampleShape& shape, Vector<const T> x, Vector<T> y);

/// dx = the sum of dy over each pixel's copies; with `accumulate`, added to dx.
template <class T>
void upsample_backward(const ExecutionSpace& exec, const UpsampleShape& shape, Vector<const T> dy, Vector<T> dx,
                       bool accumulate);

}  // namespace halograd
