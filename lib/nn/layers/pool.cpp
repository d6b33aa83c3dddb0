#include "kernels/pool.hpp"

#include <string>
#include <tuple>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

class Pool : public Layer {
 public:
  Pool(const PoolShape& shape, int dimensions) : shape_(shape), dimensions_(dimensions) {}
  [[nodiscard]] Shape output_shape() const override {
    return {{shape_.out_depth(), shape_.out_height(), shape_.out_width()}, shape_.channels, dimensions_};
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

class MaxPool : public Pool {
 public:
  using Pool::Pool;
  [[nodiscard]] LayerNeeds needs(int largest_batch) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    if (shape_.kernel_d * shape_.kernel_h * shape_.kernel_w <= max_pool_mask_places) needs.mask = Mask::own;
    needs.saved_bytes = static_cast<std::size_t>(output_shape().values() * largest_batch);
    return needs;
  }
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    max_pool_forward<float>(exec, with_batch(call.batch), call.inputs[0], call.mask, call.output, which(call));
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.input_gradients[0].size() == 0) return;
    max_pool_backward<float>(exec, with_batch(call.batch), call.output_gradient, which(call), call.input_gradients[0],
                             call.accumulate[0]);
  }

 private:
  static Vector<std::uint8_t> which(const LayerCall& call) {
    return values_at<std::uint8_t>(call.saved, 0, call.output.size());
  }
};

class AvgPool : public Pool {
 public:
  using Pool::Pool;
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    return needs;
  }
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    avg_pool_forward<float>(exec, with_batch(call.batch), call.inputs[0], call.output);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.input_gradients[0].size() == 0) return;
    avg_pool_backward<float>(exec, with_batch(call.batch), call.output_gradient, call.input_gradients[0],
                             call.accumulate[0]);
  }
};

PoolShape pool_shape(const LayerConfig& config, const Shape& input) {
  PoolShape shape;
  shape.depth = input.depth;
  shape.height = input.height;
  shape.width = input.width;
  shape.channels = input.channels;
  const auto kernel = along_axes(config, "kernel", config.kernel, input, 1);
  const auto stride = along_axes(config, "stride", config.stride, input, 1);
  const auto padding = along_axes(config, "padding", config.padding, input, 0);
  const std::string window = extents_text(kernel, input.dimensions);
  for (int axis = 0; axis < 3; ++axis) {
    HALOGRAD_REQUIRE(padding[axis] < kernel[axis], "layer ", config.name, " (", config.type, "): padding ",
                     extents_text(padding, input.dimensions), " makes windows that see nothing else; less than the ",
                     "kernel's ", window, " expected");
    HALOGRAD_REQUIRE(input.extents()[axis] + 2L * padding[axis] >= kernel[axis], "layer ", config.name, " (",
                     config.type, "): a window of ", window, " does not fit in its input of ", to_string(input));
  }
  std::tie(shape.kernel_d, shape.kernel_h, shape.kernel_w) = std::tuple_cat(kernel);
  std::tie(shape.stride_d, shape.stride_h, shape.stride_w) = std::tuple_cat(stride);
  std::tie(shape.pad_d, shape.pad_h, shape.pad_w) = std::tuple_cat(padding);
  return shape;
}

}  // namespace

std::unique_ptr<Layer> make_max_pool(const LayerConfig& config, const std::vector<Shape>& inputs,
                                     const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  const PoolShape shape = pool_shape(config, input);
  HALOGRAD_REQUIRE(static_cast<long>(shape.kernel_d) * shape.kernel_h * shape.kernel_w <= 256, "layer ", config.name,
                   " (max_pool): a window of ",
                   extents_text({shape.kernel_d, shape.kernel_h, shape.kernel_w}, input.dimensions),
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
  shape.depth = shape.kernel_d = input.depth;
  shape.height = shape.kernel_h = input.height;
  shape.width = shape.kernel_w = input.width;
  shape.channels = input.channels;
  return std::make_unique<AvgPool>(shape, input.dimensions);
}

}  // namespace halograd
