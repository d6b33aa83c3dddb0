#include "kernels/pool.hpp"

#include <string>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

template <class Derived>
class Pool : public LayerOf<Derived> {
 public:
  Pool(const PoolShape& shape, int dimensions) : shape_(shape), dimensions_(dimensions) {}
  [[nodiscard]] Shape output_shape() const override { return {shape_.out_extent(), shape_.channels, dimensions_}; }
  [[nodiscard]] Box reads(std::size_t /*input*/, const Box& output) const override { return seen_by(shape_, output); }
  [[nodiscard]] bool takes_more() const override { return true; }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    PoolShape shape = shape_;
    restrict_to(shape, part.output, part.inputs[0]);
    return std::make_unique<Derived>(shape, dimensions_);
  }

 protected:
  [[nodiscard]] PoolShape with_batch(int batch) const {
    PoolShape shape = shape_;
    shape.batch = batch;
    return shape;
  }

  PoolShape shape_;
  int dimensions_;
};

class MaxPool : public Pool<MaxPool> {
 public:
  using Pool<MaxPool>::Pool;
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType /*type*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    if (shape_.taps() <= max_pool_mask_places) needs.mask = Mask::own;
    needs.saved_bytes = static_cast<std::size_t>(output_shape().values() * largest_batch);
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    max_pool_forward<T>(exec, with_batch(call.batch), call.x<T>(0), call.mask, call.y<T>(), which(call));
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    max_pool_backward<T>(exec, with_batch(call.batch), call.dy<T>(), which(call), call.dx<T>(0), call.accumulate[0]);
  }

 private:
  [[nodiscard]] Vector<std::uint8_t> which(const LayerCall& call) const {
    return values_at<std::uint8_t>(call.saved, 0, static_cast<std::size_t>(output_shape().values() * call.batch));
  }
};

class AvgPool : public Pool<AvgPool> {
 public:
  using Pool<AvgPool>::Pool;
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    return {.backward_reads_input = false};
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    avg_pool_forward<T>(exec, with_batch(call.batch), call.x<T>(0), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    avg_pool_backward<T>(exec, with_batch(call.batch), call.dy<T>(), call.dx<T>(0), call.accumulate[0]);
  }
};

PoolShape pool_shape(const LayerConfig& config, const Shape& input) {
  PoolShape shape;
  shape.channels = input.channels;
  shape.extent = input.extents();
  shape.kernel = along_axes(config, "kernel", config.kernel, input, 1);
  shape.stride = along_axes(config, "stride", config.stride, input, 1);
  shape.padding = along_axes(config, "padding", config.padding, input, 0);
  const std::string window = extents_text(shape.kernel, input.dimensions);
  for (int axis = 0; axis < 3; ++axis) {
    HALOGRAD_REQUIRE(shape.padding[axis] < shape.kernel[axis], "layer ", config.name, " (", config.type, "): padding ",
                     extents_text(shape.padding, input.dimensions),
                     " makes windows that see nothing else; less than the ", "kernel's ", window, " expected");
  }
  HALOGRAD_REQUIRE(shape.fits(), "layer ", config.name, " (", config.type, "): a window of ", window,
                   " does not fit in its input of ", to_string(input));
  return shape;
}

}  // namespace

std::unique_ptr<Layer> make_max_pool(const LayerConfig& config, const std::vector<Shape>& inputs,
                                     const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  const PoolShape shape = pool_shape(config, input);
  HALOGRAD_REQUIRE(static_cast<long>(shape.kernel[0]) * shape.kernel[1] * shape.kernel[2] <= 256, "layer ", config.name,
                   " (max_pool): a window of ", extents_text(shape.kernel, input.dimensions),
                   " has more than 256 places");
  return std::make_unique<MaxPool>(shape, input.dimensions);
}

std::unique_ptr<Layer> make_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs,
                                     const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  return std::make_unique<AvgPool>(pool_shape(config, input), input.dimensions);
}

std::unique_ptr<Layer> make_global_avg_pool(const LayerConfig& /*config*/, const std::vector<Shape>& inputs,
                                            const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  PoolShape shape;
  shape.extent = shape.kernel = input.extents();
  shape.channels = input.channels;
  return std::make_unique<AvgPool>(shape, input.dimensions);
}

}  // namespace halograd
