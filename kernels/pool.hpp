#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// Windows of a pooling in up to three spatial dimensions; the kernels throw Error unless 0 <= pad < kernel <= extent +
/// 2 pad and stride >= 1: x (N, D, H, W, C), y (N, D', H', W', C) with H' = (H + 2 pad_h - R) / stride_h + 1, D' and W'
/// likewise. The depth stands last: what leaves it out is flat.
struct PoolShape {
  int batch = 0;
  int height = 0, width = 0, channels = 0;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;
  int depth = 1, kernel_d = 1, stride_d = 1, pad_d = 0;
  [[nodiscard]] KOKKOS_FUNCTION int out_depth() const { return (depth + 2 * pad_d - kernel_d) / stride_d + 1; }
  [[nodiscard]] KOKKOS_FUNCTION int out_height() const { return (height + 2 * pad_h - kernel_h) / stride_h + 1; }
  [[nodiscard]] KOKKOS_FUNCTION int out_width() const { return (width + 2 * pad_w - kernel_w) / stride_w + 1; }
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
