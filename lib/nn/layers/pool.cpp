#include "kernels/pool.hpp"

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

class Pool : public Layer {
 public:
  explicit Pool(const PoolShape& shape) : shape_(shape) {}
  [[nodiscard]] Shape output_shape() const override {
    return {shape_.out_height(), shape_.out_width(), shape_.channels};
  }

 protected:
  [[nodiscard]] PoolShape with_batch(int batch) const {
    PoolShape shape = shape_;
    shape.batch = batch;
    return shape;
  }

  PoolShape shape_;
};

class MaxPool : public Pool {
 public:
  using Pool::Pool;
  [[nodiscard]] LayerNeeds needs(int largest_batch) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    if (shape_.kernel_h * shape_.kernel_w <= max_pool_mask_places) needs.mask = Mask::own;
    needs.saved_bytes = output_shape().values() * static_cast<std::size_t>(largest_batch);
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
  shape.height = input.height;
  shape.width = input.width;
  shape.channels = input.channels;
  shape.kernel_h = config.kernel[0];
  shape.kernel_w = config.kernel[1];
  shape.stride_h = config.stride[0];
  shape.stride_w = config.stride[1];
  shape.pad_h = config.padding[0];
  shape.pad_w = config.padding[1];
  HALOGRAD_REQUIRE(shape.kernel_h * shape.kernel_w <= 256, "layer ", config.name, " (", config.type, "): a window of ",
                   shape.kernel_h, "x", shape.kernel_w, " has more than 256 places");
  HALOGRAD_REQUIRE(shape.pad_h < shape.kernel_h && shape.pad_w < shape.kernel_w, "layer ", config.name, " (",
                   config.type, "): padding ", shape.pad_h, "x", shape.pad_w,
                   " makes windows that see nothing else; less than the kernel's ", shape.kernel_h, "x", shape.kernel_w,
                   " expected");
  HALOGRAD_REQUIRE(shape.height + 2 * shape.pad_h >= shape.kernel_h && shape.width + 2 * shape.pad_w >= shape.kernel_w,
                   "layer ", config.name, " (", config.type, "): a window of ", shape.kernel_h, "x", shape.kernel_w,
                   " does not fit in its input of ", to_string(input));
  return shape;
}

}  // namespace

std::unique_ptr<Layer> make_max_pool(const LayerConfig& config, const std::vector<Shape>& inputs) {
  return std::make_unique<MaxPool>(pool_shape(config, single_input(config, inputs)));
}

std::unique_ptr<Layer> make_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs) {
  return std::make_unique<AvgPool>(pool_shape(config, single_input(config, inputs)));
}

std::unique_ptr<Layer> make_global_avg_pool(const LayerConfig& config, const std::vector<Shape>& inputs) {
  const Shape& input = single_input(config, inputs);
  PoolShape shape;
  shape.height = shape.kernel_h = input.height;
  shape.width = shape.kernel_w = input.width;
  shape.channels = input.channels;
  return std::make_unique<AvgPool>(shape);
}

}  // namespace halograd
