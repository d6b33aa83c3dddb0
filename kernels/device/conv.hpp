#pragma once

#include "kernels/conv.hpp"

/// Convolution on devices: matrix products by tiles (kernels/device/tile.hpp) with fixed orders of summation and no
/// atomics, so that a result has the same bits in every run. Arguments as in kernels/conv.hpp; where few channels a
/// group would leave a tile empty, one thread a result.
namespace halograd::device {

/// Bytes of scratch that the three passes need at most.
template <class T>
std::size_t conv_workspace(const ConvShape& shape);

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const Wide<T>> weights,
                  Vector<const Wide<T>> bias, bool relu, Vector<T> y, Vector<std::byte> workspace);

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy,
                        Vector<const Wide<T>> weights, Vector<const T> relu_output, Vector<T> dx, bool accumulate,
                        Vector<std::byte> workspace);

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<Wide<T>> dweights, Vector<Wide<T>> dbias, Vector<std::byte> workspace);

}  // namespace halograd::device
