#pragma once

#include "kernels/conv.hpp"

/// Convolution on devices: one thread a result, each a plain sum in a fixed order, so that no scratch and no atomics
/// are needed.
namespace halograd::device {

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> weights,
                  Vector<const T> bias, bool relu, Vector<T> y);

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy, Vector<const T> weights,
                        Vector<const T> relu_output, Vector<T> dx, bool accumulate);

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<T> dweights, Vector<T> dbias);

}  // namespace halograd::device
