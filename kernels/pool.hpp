#pragma once

#include "kernels/window_geometry.hpp"

namespace halograd {

/// A pooling in up to three spatial dimensions: x (N, D, H, W, C), y (N, D', H', W', C). The kernels throw Error unless
/// 0 <= padding < kernel <= extent + 2 padding, stride >= 1 and dilation is 1.
struct PoolShape : WindowGeometry {
  int channels = 0;  ///< C
};

/// Places of a window that leave one number of a byte for "nobody".
constexpr int max_pool_mask_places = 255;

/// Largest value of each window; padding never wins. `which` (N, D', H', W', C) keeps its place in the window, (t * R +
/// r) * S + s, for backward, so that T * R * S is at most 256. With `mask`, x is the output of a ReLU: where the
/// largest value is not positive, `which` names nobody, so that backward also goes through that ReLU; T * R * S is then
/// at most 255.
template <class T>
void max_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, bool mask, Vector<T> y,
                      Vector<std::uint8_t> which);

/// dx = the sum over the windows that took x of their dy; with `accumulate`, added to dx. No atomics: the same
/// bits for any number of threads.
template <class T>
void max_pool_backward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> dy,
                       Vector<const std::uint8_t> which, Vector<T> dx, bool accumulate);

/// Mean of each window; padding counts as zeros (PyTorch's count_include_pad).
template <class T>
void avg_pool_forward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> x, Vector<T> y);

template <class T>
void avg_pool_backward(const ExecutionSpace& exec, const PoolShape& shape, Vector<const T> dy, Vector<T> dx,
                       bool accumulate);

}  // namespace halograd
