#include "kernels/conv.hpp"

#include <algorithm>

#include "kernels/accelerator.hpp"
#include "kernels/device/conv.hpp"
#include "kernels/error.hpp"
#include "kernels/host/conv.hpp"
#include "kernels/host/conv_bf16.hpp"
#include "kernels/host/winograd.hpp"

namespace halograd {

bool computes_in(Precision precision) {
  if (precision == Precision::tf32) return accelerator_maker() == AcceleratorMaker::nvidia;
  if (precision == Precision::full || precision == Precision::automatic) return true;
  return runs_on_host ? host::bf16::fast_unit() != nullptr : has_matrix_units();
}

Precision resolved(Precision precision) {
  if (precision != Precision::automatic) return precision;
  return computes_in(Precision::bf16) ? Precision::bf16 : Precision::full;
}

ConvShape ConvShape::with_batch(int size) const {
  ConvShape shape = *this;
  shape.batch = size;
  return shape;
}

bool stores_bf16(Precision precision) {
  return resolved(precision) == Precision::bf16;
}

template <class T>
std::size_t conv_workspace(const ConvShape& shape) {
  if constexpr (!runs_on_host) {
    return device::conv_workspace<T>(shape);
  } else {
    std::size_t bytes = host::conv_workspace<T>(shape);
    if (host::winograd_applies(shape)) bytes = std::max(bytes, host::winograd_workspace<T>(shape));
    if constexpr (std::is_same_v<T, Bfloat16>) bytes = std::max(bytes, host::bf16::conv_workspace(shape));
    return bytes;
  }
}

namespace {

template <class T>
void check_workspace(const ConvShape& shape, const Vector<std::byte>& workspace) {
  HALOGRAD_REQUIRE(workspace.size() >= conv_workspace<T>(shape), "conv: a workspace of ", conv_workspace<T>(shape),
                   " bytes is needed, ", workspace.size(), " given");
}

/// nvcc looks into calls for cores, which devices leave out, unless the type of an argument depends on T.
template <class T>
const auto& dependent(const ExecutionSpace& exec) {
  return exec;
}

}  // namespace

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const Wide<T>> weights,
                  Vector<const Wide<T>> bias, bool relu, Vector<T> y, Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (!runs_on_host) {
    device::conv_forward(exec, shape, x, weights, bias, relu, y, workspace);
  } else {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::forward)) {
        return host::bf16::forward(dependent<T>(exec), *unit, shape, x.data(), weights.data(), bias.data(), relu,
                                   y.data(), workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::forward);
    const auto pass = winograd ? host::winograd_forward<T> : host::conv_forward<T>;
    pass(exec, shape, x.data(), weights.data(), bias.data(), relu, y.data(), workspace.data());
  }
}

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy,
                        Vector<const Wide<T>> weights, Vector<const T> relu_output, Vector<T> dx, bool accumulate,
                        Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (!runs_on_host) {
    device::conv_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate, workspace);
  } else {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::data)) {
        return host::bf16::backward_data(dependent<T>(exec), *unit, shape, dy.data(), weights.data(),
                                         relu_output.data(), dx.data(), accumulate, workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::data);
    const auto pass = winograd ? host::winograd_backward_data<T> : host::conv_backward_data<T>;
    pass(exec, shape, dy.data(), weights.data(), relu_output.data(), dx.data(), accumulate, workspace.data());
  }
}

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<Wide<T>> dweights, Vector<Wide<T>> dbias, Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (!runs_on_host) {
    device::conv_backward_weights(exec, shape, x, dy, dweights, dbias, workspace);
  } else {
    if constexpr (std::is_same_v<T, Bfloat16>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::weights)) {
        return host::bf16::backward_weights(dependent<T>(exec), *unit, shape, x.data(), dy.data(), dweights.data(),
                                            dbias.data(), workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::weights);
    const auto pass = winograd ? host::winograd_backward_weights<T> : host::conv_backward_weights<T>;
    pass(exec, shape, x.data(), dy.data(), dweights.data(), dbias.data(), workspace.data());
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                        \
  template std::size_t conv_workspace<T>(const ConvShape&);                                                            \
  template void conv_forward<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const Wide<T>>,       \
                                Vector<const Wide<T>>, bool, Vector<T>, Vector<std::byte>);                            \
  template void conv_backward_data<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const Wide<T>>, \
                                      Vector<const T>, Vector<T>, bool, Vector<std::byte>);                            \
  template void conv_backward_weights<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,    \
                                         Vector<Wide<T>>, Vector<Wide<T>>, Vector<std::byte>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
HALOGRAD_INSTANTIATE(Bfloat16)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
