#include "kernels/conv.hpp"

#include "kernels/error.hpp"
#include "kernels/region.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

/// Convolutions, and dense layers as convolutions of one pixel.
class Conv : public LayerOf<Conv> {
 public:
  /// `dimensions` of the input; 0: a dense layer.
  Conv(const ConvShape& shape, int dimensions, bool bias, bool relu)
      : shape_(shape), dimensions_(dimensions), bias_(bias), relu_(relu) {}

  [[nodiscard]] Shape output_shape() const override {
    return {shape_.out_extent(), shape_.filters, dimensions_ == 0 ? 2 : dimensions_};
  }
  [[nodiscard]] std::vector<TensorSpec> parameters() const override {
    const long in_group = shape_.channels / shape_.groups;
    std::vector<long> extents(shape_.kernel.end() - dimensions_, shape_.kernel.end());
    extents.insert(extents.end(), {in_group, shape_.filters});
    std::vector<TensorSpec> specs{{"weight", extents, {0, shape_.taps() * in_group}}};
    if (bias_) specs.push_back({"bias", {shape_.filters}, {}});
    return specs;
  }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    LayerNeeds needs;
    needs.mask = Mask::sum;
    needs.workspace_bytes = with_value_type(
        type, [&](auto value) { return conv_workspace<decltype(value)>(shape_.with_batch(largest_batch)); });
    return needs;
  }
  [[nodiscard]] double forward_flops() const override {
    return 2.0 * static_cast<double>(shape_.with_batch(1).out_pixels()) * static_cast<double>(shape_.weights());
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    conv_forward<T>(exec, shape_of(call), call.x<T>(0), call.parameters[0],
                    bias_ ? call.parameters[1] : Vector<const float>(), relu_, call.y<T>(), call.workspace);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const ConvShape shape = shape_of(call);
    {
      const Region region("weights");
      conv_backward_weights<T>(exec, shape, call.x<T>(0), call.dy<T>(), call.parameter_gradients[0],
                               bias_ ? call.parameter_gradients[1] : Vector<float>(), call.workspace);
    }
    if (call.input_gradients[0].size() == 0) return;
    const Region region("data");
    conv_backward_data<T>(exec, shape, call.dy<T>(), call.parameters[0], call.mask ? call.x<T>(0) : Vector<const T>(),
                          call.dx<T>(0), call.accumulate[0], call.workspace);
  }

  [[nodiscard]] Box reads(std::size_t /*input*/, const Box& output) const override { return seen_by(shape_, output); }
  [[nodiscard]] bool takes_more() const override { return true; }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<Conv>(*this);
    restrict_to(layer->shape_, part.output, part.inputs[0]);
    return layer;
  }

 private:
  [[nodiscard]] ConvShape shape_of(const LayerCall& call) const {
    ConvShape shape = shape_.with_batch(call.batch);
    shape.precision = call.precision;
    return shape;
  }

  ConvShape shape_;
  int dimensions_;
  bool bias_;
  bool relu_;
};

}  // namespace

std::unique_ptr<Layer> make_conv(const LayerConfig& config, const std::vector<Shape>& inputs,
                                 const Epilogue& epilogue) {
  const Shape& input = inputs[0];
  ConvShape shape;
  shape.channels = input.channels;
  shape.filters = config.channels;
  shape.groups = config.groups;
  shape.extent = input.extents();
  shape.kernel = along_axes(config, "kernel", config.kernel, input, 1);
  shape.stride = along_axes(config, "stride", config.stride, input, 1);
  shape.padding = along_axes(config, "padding", config.padding, input, 0);
  shape.dilation = along_axes(config, "dilation", config.dilation, input, 1);
  HALOGRAD_REQUIRE(config.channels >= 1, "layer ", config.name, " (conv): channels = ", config.channels,
                   ", at least 1 expected");
  HALOGRAD_REQUIRE(config.groups >= 1 && input.channels % config.groups == 0 && config.channels % config.groups == 0,
                   "layer ", config.name, " (conv): groups = ", config.groups, " does not divide its input's ",
                   input.channels, " channels and its own ", config.channels);
  HALOGRAD_REQUIRE(shape.fits(), "layer ", config.name, " (conv): a kernel of ",
                   extents_text(shape.kernel, input.dimensions), " does not fit in its input of ", to_string(input),
                   " with this padding");
  return std::make_unique<Conv>(shape, input.dimensions, config.bias, epilogue.relu);
}

std::unique_ptr<Layer> make_dense(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue) {
  const Shape& input = inputs[0];
  HALOGRAD_REQUIRE(config.channels >= 1, "layer ", config.name, " (dense): channels = ", config.channels,
                   ", at least 1 expected");
  HALOGRAD_REQUIRE(input.pixels() == 1, "layer ", config.name, " (dense): its input is ", to_string(input),
                   ", 1x1 expected; put a flatten or global_avg_pool layer before it");
  ConvShape shape;
  shape.channels = input.channels;
  shape.filters = config.channels;
  return std::make_unique<Conv>(shape, 0, config.bias, epilogue.relu);
}

}  // namespace halograd
