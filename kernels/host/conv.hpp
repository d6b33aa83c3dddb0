#pragma once

#include "kernels/conv.hpp"

/// Convolution on the host's cores, on plain pointers: implicit GEMM through tables of row pointers (the idea of M.
/// Dukhan, "The Indirect Convolution Algorithm", 2019): no image is unrolled, padding is a pointer to a row of zeros.
namespace halograd::host {

using Exec = Kokkos::DefaultHostExecutionSpace;

template <class T>
std::size_t conv_workspace(const ConvShape& shape);

template <class T>
void conv_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights, const Wide<T>* bias,
                  bool relu, T* y, std::byte* workspace);

template <class T>
void conv_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                        const T* relu_output, T* dx, bool accumulate, std::byte* workspace);

template <class T>
void conv_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                           Wide<T>* dbias, std::byte* workspace);

}  // namespace halograd::host
