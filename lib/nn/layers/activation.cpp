#include "kernels/activation.hpp"

#include "nn/layer.hpp"

namespace halograd {
namespace {

class ActivationLayer : public LayerOf<ActivationLayer> {
 public:
  ActivationLayer(const Shape& shape, Activation function, double slope)
      : shape_(shape), function_(function), slope_(slope), from_output_(differentiates_output(function)) {}
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = !from_output_;
    needs.backward_reads_output = from_output_;
    needs.in_place = from_output_;
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    activation_forward<T>(exec, function_, slope_, call.x<T>(0), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    activation_backward<T>(exec, function_, slope_, from_output_ ? Vector<const T>(call.y<T>()) : call.x<T>(0),
                           call.dy<T>(), call.dx<T>(0), call.accumulate[0]);
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    return std::make_unique<ActivationLayer>(part_of(shape_, part.output), function_, slope_);
  }

 private:
  Shape shape_;
  Activation function_;
  double slope_;
  bool from_output_;
};

std::unique_ptr<Layer> make(Activation function, const LayerConfig& config, const Shape& input) {
  return std::make_unique<ActivationLayer>(input, function, config.slope);
}

}  // namespace

std::unique_ptr<Layer> make_leaky_relu(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::leaky_relu, config, inputs[0]);
}

std::unique_ptr<Layer> make_relu6(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::relu6, config, inputs[0]);
}

std::unique_ptr<Layer> make_sigmoid(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::sigmoid, config, inputs[0]);
}

std::unique_ptr<Layer> make_tanh(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::tanh, config, inputs[0]);
}

std::unique_ptr<Layer> make_gelu(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::gelu, config, inputs[0]);
}

std::unique_ptr<Layer> make_silu(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return make(Activation::silu, config, inputs[0]);
}

}  // namespace halograd
