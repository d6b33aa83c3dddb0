#pragma once

#include "kernels/host/bf16_units.hpp"
#include "kernels/host/conv.hpp"
#include "kernels/host/winograd.hpp"

/// Convolutions whose operands are rounded to bf16 as they are packed into tiles, with sums and results in float.
namespace halograd::host::bf16 {

/// Whether a pass of this shape is faster so than in float.
bool pays(const ConvShape& shape, ConvPass pass);

/// What a pass multiplies with in the precision of its shape; null where it computes in full.
const Unit* unit_for(const ConvShape& shape, ConvPass pass);

/// Bytes of scratch of the three passes, for shapes of one group; does not shrink with the batch.
std::size_t conv_workspace(const ConvShape& shape);

/// As in conv.hpp, for shapes of one group.
void forward(const Exec& exec, const Unit& unit, const ConvShape& shape, const float* x, const float* weights,
             const float* bias, bool relu, float* y, std::byte* workspace);
void backward_data(const Exec& exec, const Unit& unit, const ConvShape& shape, const float* dy, const float* weights,
                   const float* relu_output, float* dx, bool accumulate, std::byte* workspace);
void backward_weights(const Exec& exec, const Unit& unit, const ConvShape& shape, const float* x, const float* dy,
                      float* dweights, float* dbias, std::byte* workspace);
std::size_t weights_workspace(const ConvShape& shape);  ///< of the weight gradient alone

}  // namespace halograd::host::bf16
