#include "kernels/conv.hpp"

#include <algorithm>

#include "kernels/channels.hpp"
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
  [[nodiscard]] std::unique_ptr<Layer> channel_part(const ChannelPart& part) const override;

 private:
  friend class ConvOfChannels;
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

/// A convolution of single pixels, or a dense layer, by a rank of a group, which has a range of the input's channels:
/// those rows of the weights lie in one piece. Outputs are the sums of what the ranks get. By the group's rule for
/// gradients (nn/space.hpp) an output's gradient is the sum of all ranks', and what a rank gives for its own channels
/// is all there is.
class ConvOfChannels : public LayerOf<ConvOfChannels> {
 public:
  ConvOfChannels(const Conv& whole, const ChannelPart& part)
      : whole_(whole), product_(whole), add_(part.add), first_rank_(part.rank == 0) {
    const long channels = whole.shape_.channels;
    const auto begin = [&](int rank) { return static_cast<int>(channels * rank / part.ranks); };
    own_ = {whole.shape_.channels, begin(part.rank), begin(part.rank + 1) - begin(part.rank)};
    product_.shape_.channels = own_.count;
  }

  [[nodiscard]] Shape output_shape() const override { return whole_.output_shape(); }
  [[nodiscard]] std::vector<TensorSpec> parameters() const override { return whole_.parameters(); }
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    LayerNeeds needs;
    needs.mask = Mask::own;
    needs.summed = summed(outputs(largest_batch));
    with_value_type(type, [&](auto value) { needs.workspace_bytes = places<decltype(value)>(largest_batch).end; });
    needs.workspace_bytes += product_.needs(largest_batch, type).workspace_bytes;
    return needs;
  }
  [[nodiscard]] double forward_flops() const override { return product_.forward_flops(); }

  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const Vector<T> y = call.y<T>();
    const bool adds_bias = whole_.bias_ && first_rank_;
    conv_forward<T>(exec, product_.shape_of(call), own_inputs<T>(exec, call), own_rows(call.parameters[0]),
                    adds_bias ? call.parameters[1] : Vector<const float>(), false, y, rest<T>(call));
    add_up<T>(exec, call, y, y);
    if (whole_.relu_) relu_forward<T>(exec, y, y);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    const Places at = places<T>(call.batch);
    const ConvShape shape = product_.shape_of(call);
    const Vector<T> dy = values_at<T>(call.workspace, at.gradient, outputs(call.batch));
    add_up<T>(exec, call, call.dy<T>(), dy);
    const Vector<const T> x = own_inputs<T>(exec, call);
    {
      const Region region("weights");
      const Vector<float>& all = call.parameter_gradients[0];
      const Vector<float> own = own_rows(all);
      const auto before = static_cast<std::size_t>(own.data() - all.data()), behind = before + own.size();
      Kokkos::deep_copy(exec, slice(all, 0, before), 0.0F);
      Kokkos::deep_copy(exec, slice(all, behind, all.size() - behind), 0.0F);
      if (whole_.bias_ && !first_rank_) Kokkos::deep_copy(exec, call.parameter_gradients[1], 0.0F);
      conv_backward_weights<T>(exec, shape, x, dy, own,
                               whole_.bias_ && first_rank_ ? call.parameter_gradients[1] : Vector<float>(),
                               rest<T>(call));
    }
    if (call.input_gradients[0].size() == 0) return;
    const Region region("data");
    const Vector<T> dx = values_at<T>(call.workspace, at.input_gradient, x.size());
    conv_backward_data<T>(exec, shape, dy, own_rows(call.parameters[0]), call.mask ? x : Vector<const T>(), dx, false,
                          rest<T>(call));
    if (!call.accumulate[0]) Kokkos::deep_copy(exec, call.dx<T>(0), T(0));
    copy_channels<T>(exec, pixels(call.batch), {own_.count, 0, own_.count}, dx, own_, call.dx<T>(0),
                     call.accumulate[0]);
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& /*part*/) const override {
    return std::make_unique<ConvOfChannels>(*this);  // it is a part already
  }

 private:
  /// Where things begin in the workspace, in bytes: the sums of the group, its output gradient, this rank's inputs and
  /// their gradient, then what the product needs.
  struct Places {
    std::size_t gradient, input, input_gradient, end;
  };
  template <class T>
  [[nodiscard]] Places places(int batch) const {
    const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::size_t inputs = aligned(static_cast<std::size_t>(pixels(batch) * own_.count) * sizeof(T));
    Places at{};
    at.gradient = aligned(summed(outputs(batch)) * sizeof(double));
    at.input = at.gradient + aligned(outputs(batch) * sizeof(T));
    at.input_gradient = at.input + inputs;
    at.end = at.input_gradient + inputs;
    return at;
  }
  [[nodiscard]] long pixels(int batch) const { return product_.shape_.with_batch(batch).in_pixels(); }
  [[nodiscard]] std::size_t outputs(int batch) const {
    const ConvShape shape = product_.shape_.with_batch(batch);
    return static_cast<std::size_t>(shape.out_pixels() * shape.filters);
  }
  template <class T>
  [[nodiscard]] Vector<std::byte> rest(const LayerCall& call) const {
    const std::size_t begin = places<T>(call.batch).end;
    return slice(call.workspace, begin, call.workspace.size() - begin);
  }
  template <class V>
  [[nodiscard]] V own_rows(const V& weights) const {
    const auto filters = static_cast<std::size_t>(whole_.shape_.filters);
    return slice(weights, static_cast<std::size_t>(own_.first) * filters,
                 static_cast<std::size_t>(own_.count) * filters);
  }
  template <class T>
  [[nodiscard]] Vector<const T> own_inputs(const ExecutionSpace& exec, const LayerCall& call) const {
    const long rows = pixels(call.batch);
    const Vector<T> x =
        values_at<T>(call.workspace, places<T>(call.batch).input, static_cast<std::size_t>(rows * own_.count));
    copy_channels<T>(exec, rows, own_, call.x<T>(0), {own_.count, 0, own_.count}, x, false);
    return x;
  }
  /// Numbers that the group adds up at a time: its window and the workspace have room for no more.
  [[nodiscard]] static std::size_t summed(std::size_t values) { return std::min(values, std::size_t{1} << 17U); }
  /// `sums`: those of `values` over the group.
  template <class T>
  void add_up(const ExecutionSpace& exec, const LayerCall& call, const Vector<const T>& values,
              const Vector<T>& sums) const {
    for (std::size_t at = 0; at < values.size();) {
      const std::size_t count = summed(values.size() - at);
      const Vector<double> numbers = values_at<double>(call.workspace, 0, count);
      convert_values<T, double>(exec, slice(values, at, count), numbers);
      add_(exec, numbers);
      convert_values<double, T>(exec, numbers, slice(sums, at, count));
      at += count;
    }
  }

  Conv whole_, product_;
  ChannelRange own_;
  AddOverRanks add_;
  bool first_rank_;
};

std::unique_ptr<Layer> Conv::channel_part(const ChannelPart& part) const {
  if (shape_.taps() != 1 || shape_.groups != 1 || shape_.channels < part.ranks) return nullptr;
  return std::make_unique<ConvOfChannels>(*this, part);
}

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
