#pragma once

#include "kernels/conv.hpp"

/// Convolutions of values stored as bf16 by the kernels for floats: some images at a time are widened into the
/// workspace, few enough that they stay in the cache. For shapes that conv_bf16.hpp does not serve.
namespace halograd::host::widened {

/// Bytes of scratch of the three passes; does not shrink with the batch.
std::size_t conv_workspace(const ConvShape& shape);

/// As in conv.hpp.
void forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> x, Vector<const float> weights,
             Vector<const float> bias, bool relu, Vector<Bfloat16> y, Vector<std::byte> workspace);
void backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> dy,
                   Vector<const float> weights, Vector<const Bfloat16> relu_output, Vector<Bfloat16> dx,
                   bool accumulate, Vector<std::byte> workspace);
void backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const Bfloat16> x,
                      Vector<const Bfloat16> dy, Vector<float> dweights, Vector<float> dbias,
                      Vector<std::byte> workspace);

}  // namespace halograd::host::widened
