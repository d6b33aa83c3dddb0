#pragma once

#include "kernels/host/conv.hpp"

/// Winograd's minimal filtering on the host's cores, for 3x3 and 5x5 kernels with stride 1: a tile of 4x4 outputs
/// costs 36 (64) products a pair of channels instead of 144 (400). Kernels with several slices of 3x3 or 5x5 are sums
/// over them, each transformed tile serving all slices. Results do not depend on the number of threads.
namespace halograd::host {

enum class ConvPass { forward, data, weights };

/// Whether these functions can compute a convolution.
bool winograd_applies(const ConvShape& shape);

/// Whether they are expected to be faster than the direct kernels: a function of the shape only, so that every rank,
/// and every run, takes the same way.
bool winograd_pays(const ConvShape& shape, ConvPass pass);

/// Bytes of scratch that the three passes need at most.
template <class T>
std::size_t winograd_workspace(const ConvShape& shape);

/// As conv_forward, conv_backward_data and conv_backward_weights.
template <class T>
void winograd_forward(const Exec& exec, const ConvShape& shape, const T* x, const Wide<T>* weights, const Wide<T>* bias,
                      bool relu, T* y, std::byte* workspace);
template <class T>
void winograd_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                            const T* relu_output, T* dx, bool accumulate, std::byte* workspace);
template <class T>
void winograd_backward_weights(const Exec& exec, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweights,
                               Wide<T>* dbias, std::byte* workspace);

/// The data gradient as the adjoint of the forward pass, by tiles of dy: a few large kernels without padding have far
/// fewer of them than tiles of dx. winograd_backward_data goes this way where it pays.
bool adjoint_pays(const ConvShape& shape);
template <class T>
std::size_t adjoint_workspace(const ConvShape& shape);
template <class T>
void adjoint_backward_data(const Exec& exec, const ConvShape& shape, const T* dy, const Wide<T>* weights,
                           const T* relu_output, T* dx, bool accumulate, std::byte* workspace);

/// Bytes of scratch: of winograd_forward and winograd_backward_data, and of winograd_backward_weights.
template <class T>
std::size_t winograd_product_workspace(const ConvShape& shape);
template <class T>
std::size_t winograd_weights_workspace(const ConvShape& shape);

}  // namespace halograd::host
