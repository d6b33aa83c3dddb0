#include "kernels/activation.hpp"

#include "nn/layer.hpp"

namespace halograd {
namespace {

class ActivationLayer : public LayerOf<ActivationLayer> {
 public:
  ActivationLayer(const Shape& shape, Activation function, double number = 0)
      : shape_(shape), function_(function), number_(number), from_output_(differentiates_output(function)) {}
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
    activation_forward<T>(exec, function_, number_, call.x<T>(0), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    activation_backward<T>(exec, function_, number_, from_output_ ? Vector<const T>(call.y<T>()) : call.x<T>(0),
                           call.dy<T>(), call.dx<T>(0), call.accumulate[0]);
  }

  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    return std::make_unique<ActivationLayer>(part_of(shape_, part.output), function_, number_);
  }

 private:
  Shape shape_;
  Activation function_;
  double number_;
  bool from_output_;
};

}  // namespace

std::unique_ptr<Layer> make_leaky_relu(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::leaky_relu, config.slope);
}

std::unique_ptr<Layer> make_relu6(const LayerConfig&, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::relu6);
}

std::unique_ptr<Layer> make_sigmoid(const LayerConfig&, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::sigmoid);
}

std::unique_ptr<Layer> make_tanh(const LayerConfig& config, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::tanh, config.scale);
}

std::unique_ptr<Layer> make_gelu(const LayerConfig&, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::gelu);
}

std::unique_ptr<Layer> make_silu(const LayerConfig&, const std::vector<Shape>& inputs, const Epilogue&) {
  return std::make_unique<ActivationLayer>(inputs[0], Activation::silu);
}

}  // namespace halograd
