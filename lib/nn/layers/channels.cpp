#include "kernels/channels.hpp"

#include <limits>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

/// The channels of all inputs, one after the other.
class Concat : public LayerOf<Concat> {
 public:
  explicit Concat(const std::vector<Shape>& inputs) : shape_(inputs[0]) {
    shape_.channels = 0;
    for (const Shape& input : inputs) {
      first_.push_back(shape_.channels);
      count_.push_back(input.channels);
      shape_.channels += input.channels;
    }
  }
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    return {.backward_reads_input = false};
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    for (std::size_t i = 0; i < count_.size(); ++i) {
      copy_channels<T>(exec, call.batch * shape_.pixels(), {count_[i], 0, count_[i]}, call.x<T>(i),
                       {shape_.channels, first_[i], count_[i]}, call.y<T>(), false);
    }
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    for (std::size_t i = 0; i < count_.size(); ++i) {
      if (call.input_gradients[i].size() == 0) continue;
      copy_channels<T>(exec, call.batch * shape_.pixels(), {shape_.channels, first_[i], count_[i]}, call.dy<T>(),
                       {count_[i], 0, count_[i]}, call.dx<T>(i), call.accumulate[i]);
    }
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<Concat>(*this);
    layer->shape_ = part_of(shape_, part.output);
    return layer;
  }

 private:
  Shape shape_;
  std::vector<int> first_, count_;  ///< of each input's channels
};

/// Some channels of the input.
class Slice : public LayerOf<Slice> {
 public:
  Slice(const Shape& input, const ChannelRange& range) : shape_(input), range_(range) { shape_.channels = range.count; }
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    return {.backward_reads_input = false};
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    copy_channels<T>(exec, call.batch * shape_.pixels(), range_, call.x<T>(0), all(), call.y<T>(), false);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    if (!call.accumulate[0]) Kokkos::deep_copy(exec, call.dx<T>(0), T(0));  // of the other channels
    copy_channels<T>(exec, call.batch * shape_.pixels(), all(), call.dy<T>(), range_, call.dx<T>(0), true);
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    return std::make_unique<Slice>(part_of(shape_, part.output), range_);
  }

 private:
  [[nodiscard]] ChannelRange all() const { return {range_.count, 0, range_.count}; }

  Shape shape_;
  ChannelRange range_;  ///< of the input's channels
};

class UpsampleLayer : public LayerOf<UpsampleLayer> {
 public:
  UpsampleLayer(const Shape& input, const std::array<int, 3>& factor) : input_(input), factor_(factor) {}
  [[nodiscard]] Shape output_shape() const override {
    return {with_batch(1).out_extent(), input_.channels, input_.dimensions};
  }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    return {.backward_reads_input = false};
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    upsample_forward<T>(exec, with_batch(call.batch), call.x<T>(0), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    upsample_backward<T>(exec, with_batch(call.batch), call.dy<T>(), call.dx<T>(0), call.accumulate[0]);
  }

  [[nodiscard]] Box reads(std::size_t /*input*/, const Box& output) const override {
    Box box;
    for (int axis = 0; axis < 3; ++axis) {
      box.begin[axis] = output.begin[axis] / factor_[axis];
      box.end[axis] = (output.end[axis] - 1) / factor_[axis] + 1;
    }
    return box;
  }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    const Box& from = part.inputs[0];
    auto layer = std::make_unique<UpsampleLayer>(part_of(input_, from), factor_);
    for (int axis = 0; axis < 3; ++axis) {
      layer->before_[axis] = part.output.begin[axis] - from.begin[axis] * factor_[axis];
      layer->behind_[axis] = from.end[axis] * factor_[axis] - part.output.end[axis];
    }
    return layer;
  }

 private:
  [[nodiscard]] UpsampleShape with_batch(int batch) const {
    return {batch, input_.extents(), input_.channels, factor_, before_, behind_};
  }

  Shape input_;
  std::array<int, 3> factor_;
  std::array<int, 3> before_{0, 0, 0}, behind_{0, 0, 0};  ///< copies that are another rank's
};

}  // namespace

std::unique_ptr<Layer> make_concat(const LayerConfig& config, const std::vector<Shape>& inputs,
                                   const Epilogue& /*epilogue*/) {
  long channels = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    channels += inputs[i].channels;
    HALOGRAD_REQUIRE(inputs[i].extents() == inputs[0].extents(), "layer ", config.name, " (concat): its inputs ",
                     config.inputs[0], " and ", config.inputs[i], " have shapes ", to_string(inputs[0]), " and ",
                     to_string(inputs[i]), ", which differ in more than channels");
  }
  HALOGRAD_REQUIRE(channels <= std::numeric_limits<int>::max(), "layer ", config.name, " (concat): its inputs have ",
                   channels, " channels together");
  return std::make_unique<Concat>(inputs);
}

std::unique_ptr<Layer> make_slice(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& /*epilogue*/) {
  const int channels = inputs[0].channels;
  HALOGRAD_REQUIRE(config.first < channels && config.channels <= channels - config.first, "layer ", config.name,
                   " (slice): its input of ", to_string(inputs[0]), " has no ", config.channels,
                   " channels from channel ", config.first, " on");
  return std::make_unique<Slice>(inputs[0], ChannelRange{channels, config.first, config.channels});
}

std::unique_ptr<Layer> make_upsample(const LayerConfig& config, const std::vector<Shape>& inputs,
                                     const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  const auto factor = along_axes(config, "factor", config.factor, input, 1);
  for (int axis = 0; axis < 3; ++axis) {
    HALOGRAD_REQUIRE(input.extents()[axis] <= std::numeric_limits<int>::max() / factor[axis], "layer ", config.name,
                     " (upsample): its input of ", to_string(input), " cannot grow by ",
                     extents_text(factor, input.dimensions));
  }
  return std::make_unique<UpsampleLayer>(input, factor);
}

}  // namespace halograd
