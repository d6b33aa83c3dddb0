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

template <class T>
std::size_t conv_workspace(const ConvShape& shape) {
  if constexpr (runs_on_host) {
    std::size_t bytes = host::conv_workspace<T>(shape);
    if (host::winograd_applies(shape)) bytes = std::max(bytes, host::winograd_workspace<T>(shape));
    const auto pays = [&](host::ConvPass pass) { return host::bf16::pays(shape, pass); };
    const bool any = pays(host::ConvPass::forward) || pays(host::ConvPass::data) || pays(host::ConvPass::weights);
    if (std::is_same_v<T, float> && any && host::bf16::fast_unit() != nullptr) {
      bytes = std::max(bytes, host::bf16::conv_workspace(shape));
    }
    return bytes;
  } else {
    return device::conv_workspace<T>(shape);
  }
}

namespace {

template <class T>
void check_workspace(const ConvShape& shape, const Vector<std::byte>& workspace) {
  HALOGRAD_REQUIRE(workspace.size() >= conv_workspace<T>(shape), "conv: a workspace of ", conv_workspace<T>(shape),
                   " bytes is needed, ", workspace.size(), " given");
}

}  // namespace

template <class T>
void conv_forward(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> weights,
                  Vector<const T> bias, bool relu, Vector<T> y, Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (runs_on_host) {
    if constexpr (std::is_same_v<T, float>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::forward)) {
        return host::bf16::forward(exec, *unit, shape, x.data(), weights.data(), bias.data(), relu, y.data(),
                                   workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::forward);
    const auto pass = winograd ? host::winograd_forward<T> : host::conv_forward<T>;
    pass(exec, shape, x.data(), weights.data(), bias.data(), relu, y.data(), workspace.data());
  } else {
    device::conv_forward(exec, shape, x, weights, bias, relu, y);
  }
}

template <class T>
void conv_backward_data(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> dy, Vector<const T> weights,
                        Vector<const T> relu_output, Vector<T> dx, bool accumulate, Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (runs_on_host) {
    if constexpr (std::is_same_v<T, float>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::data)) {
        return host::bf16::backward_data(exec, *unit, shape, dy.data(), weights.data(), relu_output.data(), dx.data(),
                                         accumulate, workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::data);
    const auto pass = winograd ? host::winograd_backward_data<T> : host::conv_backward_data<T>;
    pass(exec, shape, dy.data(), weights.data(), relu_output.data(), dx.data(), accumulate, workspace.data());
  } else {
    device::conv_backward_data(exec, shape, dy, weights, relu_output, dx, accumulate);
  }
}

template <class T>
void conv_backward_weights(const ExecutionSpace& exec, const ConvShape& shape, Vector<const T> x, Vector<const T> dy,
                           Vector<T> dweights, Vector<T> dbias, Vector<std::byte> workspace) {
  check_workspace<T>(shape, workspace);
  if constexpr (runs_on_host) {
    if constexpr (std::is_same_v<T, float>) {
      if (const auto* unit = host::bf16::unit_for(shape, host::ConvPass::weights)) {
        return host::bf16::backward_weights(exec, *unit, shape, x.data(), dy.data(), dweights.data(), dbias.data(),
                                            workspace.data());
      }
    }
    const bool winograd = host::winograd_pays(shape, host::ConvPass::weights);
    const auto pass = winograd ? host::winograd_backward_weights<T> : host::conv_backward_weights<T>;
    pass(exec, shape, x.data(), dy.data(), dweights.data(), dbias.data(), workspace.data());
  } else {
    device::conv_backward_weights(exec, shape, x, dy, dweights, dbias, workspace);
  }
}

#define HALOGRAD_INSTANTIATE(T)                                                                                     \
  template std::size_t conv_workspace<T>(const ConvShape&);                                                         \
  template void conv_forward<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,          \
                                Vector<const T>, bool, Vector<T>, Vector<std::byte>);                               \
  template void conv_backward_data<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>,    \
                                      Vector<const T>, Vector<T>, bool, Vector<std::byte>);                         \
  template void conv_backward_weights<T>(const ExecutionSpace&, const ConvShape&, Vector<const T>, Vector<const T>, \
                                         Vector<T>, Vector<T>, Vector<std::byte>);
HALOGRAD_INSTANTIATE(float)
HALOGRAD_INSTANTIATE(double)
#undef HALOGRAD_INSTANTIATE

}  // namespace halograd
