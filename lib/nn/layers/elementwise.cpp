#include "kernels/elementwise.hpp"

#include <limits>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

/// Layers whose output has the values of its input one by one, so that it may take the input's place.
class Elementwise : public Layer {
 public:
  explicit Elementwise(const Shape& shape) : shape_(shape) {}
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    needs.in_place = true;
    return needs;
  }

 private:
  Shape shape_;
};

class Relu : public Elementwise {
 public:
  using Elementwise::Elementwise;
  [[nodiscard]] LayerNeeds needs(int largest_batch) const override {
    LayerNeeds needs = Elementwise::needs(largest_batch);
    needs.backward_reads_output = true;
    return needs;
  }
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    relu_forward<float>(exec, call.inputs[0], call.output);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.input_gradients[0].size() == 0) return;
    relu_backward<float>(exec, call.output, call.output_gradient, call.input_gradients[0], call.accumulate[0]);
  }
};

class Add : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    add_forward<float>(exec, call.inputs[0], call.inputs[1], call.output);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    pass_gradient(exec, call, 0);
    pass_gradient(exec, call, 1);
  }
};

/// Also serves for what changes only the shape.
class Flatten : public Elementwise {
 public:
  using Elementwise::Elementwise;
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.output.data() != call.inputs[0].data()) copy_gradient<float>(exec, call.inputs[0], call.output, false);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override { pass_gradient(exec, call, 0); }
};

class Dropout : public Elementwise {
 public:
  Dropout(const Shape& shape, double probability) : Elementwise(shape), probability_(probability) {}
  [[nodiscard]] LayerNeeds needs(int largest_batch) const override {
    LayerNeeds needs = Elementwise::needs(largest_batch);
    needs.random = true;
    return needs;
  }
  void forward(const ExecutionSpace& exec, const LayerCall& call) override {
    dropout<float>(exec, call.inputs[0], call.output, call.training ? probability_ : 0, call.random_key, false);
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) override {
    if (call.input_gradients[0].size() == 0) return;
    dropout<float>(exec, call.output_gradient, call.input_gradients[0], probability_, call.random_key,
                   call.accumulate[0]);
  }

 private:
  double probability_;
};

}  // namespace

void pass_gradient(const ExecutionSpace& exec, const LayerCall& call, std::size_t input) {
  const Vector<float>& to = call.input_gradients[input];
  if (to.size() == 0 || to.data() == call.output_gradient.data()) return;
  copy_gradient<float>(exec, call.output_gradient, to, call.accumulate[input]);
}

std::unique_ptr<Layer> make_relu(const LayerConfig& /*config*/, const std::vector<Shape>& inputs,
                                 const Epilogue& /*epilogue*/) {
  return std::make_unique<Relu>(inputs[0]);
}

std::unique_ptr<Layer> make_add(const LayerConfig& config, const std::vector<Shape>& inputs,
                                const Epilogue& /*epilogue*/) {
  HALOGRAD_REQUIRE(inputs[0] == inputs[1], "layer ", config.name, " (add): its inputs ", config.inputs[0], " and ",
                   config.inputs[1], " have shapes ", to_string(inputs[0]), " and ", to_string(inputs[1]),
                   ", equal ones expected");
  return std::make_unique<Add>(inputs[0]);
}

std::unique_ptr<Layer> make_flatten(const LayerConfig& config, const std::vector<Shape>& inputs,
                                    const Epilogue& /*epilogue*/) {
  const Shape& input = inputs[0];
  constexpr int most = std::numeric_limits<int>::max();
  HALOGRAD_REQUIRE(input.values() <= most, "layer ", config.name, " (flatten): its input ", to_string(input),
                   " has more than ", most, " values");
  return std::make_unique<Flatten>(Shape({1, 1, 1}, static_cast<int>(input.values()), input.dimensions));
}

std::unique_ptr<Layer> make_dropout(const LayerConfig& config, const std::vector<Shape>& inputs,
                                    const Epilogue& /*epilogue*/) {
  return std::make_unique<Dropout>(inputs[0], config.probability);
}

}  // namespace halograd
