#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/window_geometry.hpp"

namespace halograd {

/// What values are rounded to before they are multiplied; sums are not.
enum class Precision {
  full,      ///< not at all
  tf32,      ///< 10 bits of fraction: NVIDIA's matrix units on floats
  bf16,      ///< 7 bits of fraction: matrix units of NVIDIA and AMD, cores with AMX or (AMD) AVX512_BF16
  automatic  ///< bf16 where the device in use multiplies so, else full
};

/// Whether the device in use multiplies so.
bool computes_in(Precision precision);

/// What automatic means on the device in use; others are what they are.
Precision resolved(Precision precision);

/// Whether values are stored as Bfloat16 in this precision.
bool stores_bf16(Precision precision);

/// A convolution in up to three spatial dimensions: x (N, D, H, W, C), weights (T, R, S, C/G, K), bias (K),
/// y (N, D', H', W', K). A dense layer is the case where all extents and kernels are 1.
struct ConvShape : WindowGeometry {
  int channels = 0;                       ///< C
  int filters = 0;                        ///< K
  int groups = 1;                         ///< G
  Precision precision = Precision::full;  ///< of devices; cores compute in that of the values

  [[nodiscard]] ConvShape with_batch(int size) const;
  [[nodiscard]] long weights() const { return static_cast<long>(taps()) * (channels / groups) * filters; }
};

/// Bytes of scratch that the three passes of a convolution need at most. T may be Bfloat16: sums are then floats,
/// rounded once as they are stored, and weights are floats, rounded where units of bf16 multiply.
template <class T>
std::size_t conv_workspace(const ConvShape& shape);

/// y = conv(x, weights) + bias; an empty bias is zero. With `relu`, y = max(that, 0); a NaN stays one.
template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const Wide<T>> weights,
                  Vector<const Wide<T>> bias, bool relu, Vector<T> y, Vector<std::byte> workspace);

/// dx = the gradient with respect to x; with `accumulate`, added to dx. Where x is the output of a ReLU, giving it as
/// `relu_output` (N, D, H, W, C) also takes the gradient back through that ReLU: dx, sum included, is zero where
/// relu_output is not positive. Otherwise it is empty.
template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy,
                        Vector<const Wide<T>> weights, Vector<const T> relu_output, Vector<T> dx, bool accumulate,
                        Vector<std::byte> workspace);

/// dweights and dbias (not computed where empty) are overwritten.
template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<Wide<T>> dweights, Vector<Wide<T>> dbias, Vector<std::byte> workspace);

}  // namespace halograd
