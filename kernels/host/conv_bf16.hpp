#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/host/bf16_units.hpp"
#include "kernels/host/conv.hpp"
#include "kernels/host/winograd.hpp"

/// Convolutions of values stored as bf16: weights are rounded as they are packed into tiles, sums are in float.
namespace halograd::host::bf16 {

/// Whether a pass of this shape is faster so than with the products of floats.
bool pays(const Unit& unit, const ConvShape& shape, ConvPass pass);

/// What a pass multiplies with; null where that are floats.
const Unit* unit_for(const ConvShape& shape, ConvPass pass);

/// Bytes of scratch of the three passes, for shapes of one group; does not shrink with the batch.
std::size_t conv_workspace(const ConvShape& shape);

/// As in conv.hpp, for shapes of one group.
void forward(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* x, const float* weights,
             const float* bias, bool relu, Bfloat16* y, std::byte* workspace);
void backward_data(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* dy, const float* weights,
                   const Bfloat16* relu_output, Bfloat16* dx, bool accumulate, std::byte* workspace);
void backward_weights(const Exec& exec, const Unit& unit, const ConvShape& shape, const Bfloat16* x, const Bfloat16* dy,
                      float* dweights, float* dbias, std::byte* workspace);
std::size_t weights_workspace(const ConvShape& shape);  ///< of the weight gradient alone

}  // namespace halograd::host::bf16
