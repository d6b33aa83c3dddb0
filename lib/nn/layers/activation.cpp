#include "kernels/activation.hpp"

#include <map>
#include <string>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

class ActivationLayer : public Layer {
 public:
  ActivationLayer(const Shape& shape, Activation function, double slope)
      : shape_(shape), function_(function), slope_(slope), from_output_(differentiates_output(function)) {}
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = !from_output_;
    needs.backward_reads_output = from_output_;
    needs.in_place = from_output_;
    return needs;
  }
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    activation_forward<float>(exec, function_, slope_, call.inputs[0], call.output);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.input_gradients[0].size() == 0) return;
    activation_backward<float>(exec, function_, slope_,
                               from_output_ ? Vector<const float>(call.output) : call.inputs[0], call.output_gradient,
                               call.input_gradients[0], call.accumulate[0]);
  }

 private:
  Shape shape_;
  Activation function_;
  double slope_;
  bool from_output_;
};

}  // namespace

std::unique_ptr<Layer> make_activation(const LayerConfig& config, const std::vector<Shape>& inputs) {
  static const std::map<std::string, Activation> functions{{"leaky_relu", Activation::leaky_relu},
                                                           {"relu6", Activation::relu6},
                                                           {"sigmoid", Activation::sigmoid},
                                                           {"tanh", Activation::tanh},
                                                           {"gelu", Activation::gelu},
                                                           {"silu", Activation::silu}};
  const auto found = functions.find(config.type);
  if (found == functions.end()) return nullptr;
  return std::make_unique<ActivationLayer>(single_input(config, inputs), found->second, config.slope);
}

}  // namespace halograd
