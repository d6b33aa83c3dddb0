#pragma once

#include "kernels/conv.hpp"
#include "kernels/host/conv.hpp"

/// The direct convolutions that host::conv_forward and so on choose from. Workspaces never shrink with the batch.
namespace halograd::host {

/// Any shape: forward and data gradient (conv_gather.cpp).
template <class T>
std::size_t gather_workspace(const ConvShape& shape);
template <class T>
void gather_forward(const Exec& exec, const ConvShape& shape, const T* x, const T* weights, const T* bias, bool relu,
                    T* y, std::byte* workspace);
template <class T>
void gather_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const T* weights, const T* relu_output,
                          T* dx, bool accumulate, std::byte* workspace);

/// Few channels without padding, rows of eight pixels or more: forward (conv_narrow.cpp) and, of filters that one
/// register tile holds, weight gradient (conv_narrow_weights.cpp): more would read x once for each tile of them.
bool is_narrow(const ConvShape& shape);
bool has_narrow_weights(const ConvShape& shape);
template <class T>
std::size_t narrow_workspace(const ConvShape& shape);
template <class T>
std::size_t narrow_weights_workspace(const ConvShape& shape);
template <class T>
void narrow_forward(const Exec& exec, const ConvShape& shape, const Wide<T>* x, const Wide<T>* weights,
                    const Wide<T>* bias, bool relu, T* y, std::byte* workspace);
template <class T>
void narrow_backward_weights(const Exec& exec, const ConvShape& shape, const Wide<T>* x, const T* dy, Wide<T>* dweights,
                             Wide<T>* dbias, std::byte* workspace);

/// Few channels, stride 2 x 2: data gradient (conv_strided_data.cpp).
bool has_strided_data(const ConvShape& shape);
template <class T>
std::size_t strided_workspace(const ConvShape& shape);
template <class T>
void strided_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const T* weights,
                           const T* relu_output, T* dx, bool accumulate, std::byte* workspace);

/// Any shape: weight gradient (conv_weights.cpp).
template <class T>
std::size_t outer_workspace(const ConvShape& shape);
template <class T>
void outer_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, T* dweights, T* dbias,
                            std::byte* workspace);

/// Depthwise shapes, one filter a channel (conv_depthwise.cpp).
bool is_depthwise(const ConvShape& shape);
template <class T>
std::size_t depthwise_workspace(const ConvShape& shape);
template <class T>
void depthwise_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights,
                       const Wide<T>* bias, bool relu, T* y, std::byte* workspace);
template <class T>
void depthwise_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                             const T* relu_output, T* dx, bool accumulate, std::byte* workspace);
template <class T>
void depthwise_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                                Wide<T>* dbias, std::byte* workspace);

/// Values stored as bf16: some images at a time are widened into the workspace for the functions above, few enough that
/// they stay in the cache (conv_widened.cpp).
std::size_t widened_workspace(const ConvShape& shape);
void widened_forward(const Exec& exec, const ConvShape& shape, const Bfloat16* x, const float* weights,
                     const float* bias, bool relu, Bfloat16* y, std::byte* workspace);
void widened_backward_data(const Exec& exec, const ConvShape& shape, const Bfloat16* dy, const float* weights,
                           const Bfloat16* relu_output, Bfloat16* dx, bool accumulate, std::byte* workspace);
void widened_backward_weights(const Exec& exec, const ConvShape& shape, const Bfloat16* x, const Bfloat16* dy,
                              float* dweights, float* dbias, std::byte* workspace);

}  // namespace halograd::host
