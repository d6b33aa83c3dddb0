#include <algorithm>
#include <limits>

#include "kernels/channels.hpp"
#include "kernels/conv.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

/// Transposed convolution: the data gradient of the convolution that leads from its output to its input. `shape_` is
/// that convolution's, so channels are this layer's outputs and filters its inputs.
class ConvTranspose : public LayerOf<ConvTranspose> {
 public:
  ConvTranspose(const ConvShape& shape, int dimensions, bool bias)
      : shape_(shape), dimensions_(dimensions), bias_(bias) {}

  [[nodiscard]] Shape output_shape() const override { return {shape_.extent, shape_.channels, dimensions_}; }
  [[nodiscard]] std::vector<TensorSpec> parameters() const override {
    std::vector<long> extents(shape_.kernel.end() - dimensions_, shape_.kernel.end());
    extents.insert(extents.end(), {shape_.channels / shape_.groups, shape_.filters});
    // Each output sees one in stride of the taps along an axis.
    const long steps = static_cast<long>(shape_.stride[0]) * shape_.stride[1] * shape_.stride[2];
    const long fan_in = std::max(1L, shape_.taps() * static_cast<long>(shape_.filters / shape_.groups) / steps);
    std::vector<TensorSpec> specs{{"weight", extents, {0, fan_in}}};
    if (bias_) specs.push_back({"bias", {shape_.channels}, {}});
    return specs;
  }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    const ConvShape shape = shape_.with_batch(largest_batch);
    LayerNeeds needs;
    const auto inputs = static_cast<std::size_t>(shape.out_pixels()) * static_cast<std::size_t>(shape.filters);
    needs.workspace_bytes = with_value_type(
        type, [&](auto value) { return own_workspace<decltype(value)>(shape) + sizeof(value) * inputs; });
    return needs;
  }
  [[nodiscard]] double forward_flops() const override {
    return 2.0 * static_cast<double>(shape_.with_batch(1).out_pixels()) * static_cast<double>(shape_.weights());
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const ConvShape shape = shape_of(call);
    if (bias_) broadcast_channels<T>(exec, shape.in_pixels(), shape.channels, call.parameters[1], call.y<T>());
    conv_backward_data<T>(exec, shape, call.x<T>(0), call.parameters[0], {}, call.y<T>(), bias_, call.workspace);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const ConvShape shape = shape_of(call);
    conv_backward_weights<T>(exec, shape, call.dy<T>(), call.x<T>(0), call.parameter_gradients[0], {}, call.workspace);
    if (bias_) {
      sum_channels<T>(exec, shape.in_pixels(), shape.channels, call.dy<T>(), call.parameter_gradients[1],
                      values_at<double>(call.workspace, 0, call.workspace.size() / sizeof(double)));
    }
    if (call.input_gradients[0].size() == 0) return;
    // A convolution overwrites: what another layer's gradient waits for is added by way of the workspace.
    const auto values = call.dx<T>(0).size();
    const Vector<T> fresh =
        call.accumulate[0] ? values_at<T>(call.workspace, own_workspace<T>(shape), values) : call.dx<T>(0);
    conv_forward<T>(exec, shape, call.dy<T>(), call.parameters[0], {}, false, fresh, call.workspace);
    if (call.accumulate[0]) copy_gradient<T>(exec, fresh, call.dx<T>(0), true);
  }

  /// The windows of shape_ that hold a box of its inputs, which are this layer's outputs.
  [[nodiscard]] Box reads(std::size_t /*input*/, const Box& output) const override {
    const std::array<int, 3> inputs = shape_.out_extent();
    Box box;
    for (int axis = 0; axis < 3; ++axis) {
      const WindowAxis window = shape_.axis(axis);
      const int reach = window.dilation * (window.kernel - 1), padding = window.padding, stride = window.stride;
      const int newest = (output.begin[axis] + padding) / stride;  // that begins before the box does
      const int oldest = std::max(0, output.begin[axis] + padding - reach + stride - 1) / stride;
      box.begin[axis] = std::min({oldest, newest, inputs[axis] - 1});
      box.end[axis] = std::clamp((output.end[axis] - 1 + padding) / stride, box.begin[axis], inputs[axis] - 1) + 1;
    }
    return box;
  }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<ConvTranspose>(*this);
    ConvShape& shape = layer->shape_;
    const Box inputs = reads(0, part.output);
    for (int axis = 0; axis < 3; ++axis) {
      shape.extent[axis] = part.output.extents()[axis];
      shape.padding[axis] += part.output.begin[axis] - inputs.begin[axis] * shape.stride[axis];
      shape.more_behind[axis] = static_cast<int>(shape.extent_for(axis, inputs.extents()[axis]) - shape.extent[axis]);
    }
    return layer;
  }

 private:
  /// Bytes for the kernels; a second input gradient may lie behind them.
  template <class T>
  [[nodiscard]] static std::size_t own_workspace(const ConvShape& shape) {
    const std::size_t bytes =
        std::max(conv_workspace<T>(shape), sizeof(double) * sum_channels_workspace(shape.in_pixels(), shape.channels));
    return (bytes + 63) / 64 * 64;
  }

  [[nodiscard]] ConvShape shape_of(const LayerCall& call) const {
    ConvShape shape = shape_.with_batch(call.batch);
    shape.precision = call.precision;
    return shape;
  }

  ConvShape shape_;
  int dimensions_;
  bool bias_;
};

}  // namespace

std::unique_ptr<Layer> make_conv_transpose(const LayerConfig& config, const std::vector<Shape>& inputs,
                                           const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  HALOGRAD_REQUIRE(config.groups >= 1 && input.channels % config.groups == 0 && config.channels % config.groups == 0,
                   "layer ", config.name, " (conv_transpose): groups = ", config.groups,
                   " does not divide its input's ", input.channels, " channels and its own ", config.channels);
  ConvShape shape;
  shape.channels = config.channels;
  shape.filters = input.channels;
  shape.groups = config.groups;
  shape.kernel = along_axes(config, "kernel", config.kernel, input, 1);
  shape.stride = along_axes(config, "stride", config.stride, input, 1);
  shape.padding = along_axes(config, "padding", config.padding, input, 0);
  shape.dilation = along_axes(config, "dilation", config.dilation, input, 1);
  const auto more = along_axes(config, "output_padding", config.output_padding, input, 0);
  for (int axis = 0; axis < 3; ++axis) {
    HALOGRAD_REQUIRE(more[axis] < shape.stride[axis], "layer ", config.name, " (conv_transpose): output_padding ",
                     extents_text(more, input.dimensions), " is not below the stride ",
                     extents_text(shape.stride, input.dimensions));
    const long extent = shape.extent_for(axis, input.extents()[axis]) + more[axis];
    HALOGRAD_REQUIRE(extent >= 1 && extent <= std::numeric_limits<int>::max(), "layer ", config.name,
                     " (conv_transpose): its output would be ", extent, " pixels long, from an input of ",
                     to_string(input), " with padding ", extents_text(shape.padding, input.dimensions));
    shape.extent[axis] = static_cast<int>(extent);
  }
  return std::make_unique<ConvTranspose>(shape, input.dimensions, config.bias);
}

}  // namespace halograd
