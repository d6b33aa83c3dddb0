#include "kernels/elementwise.hpp"

#include <limits>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"

namespace halograd {
namespace {

/// Layers whose output has the values of its input one by one, so that it may take the input's place.
template <class Derived>
class Elementwise : public LayerOf<Derived> {
 public:
  explicit Elementwise(const Shape& shape) : shape_(shape) {}
  [[nodiscard]] Shape output_shape() const override { return shape_; }
  [[nodiscard]] LayerNeeds needs(int /*largest_batch*/, ValueType /*type*/) const override {
    LayerNeeds needs;
    needs.backward_reads_input = false;
    needs.in_place = true;
    return needs;
  }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    auto layer = std::make_unique<Derived>(static_cast<const Derived&>(*this));
    layer->shape_ = part_of(shape_, part.output);
    return layer;
  }

 protected:
  Shape shape_;
};

class Relu : public Elementwise<Relu> {
 public:
  using Elementwise<Relu>::Elementwise;
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    LayerNeeds needs = Elementwise::needs(largest_batch, type);
    needs.backward_reads_output = true;
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    relu_forward<T>(exec, call.x<T>(0), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    relu_backward<T>(exec, call.y<T>(), call.dy<T>(), call.dx<T>(0), call.accumulate[0]);
  }
};

class Add : public Elementwise<Add> {
 public:
  using Elementwise<Add>::Elementwise;
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    add_forward<T>(exec, call.x<T>(0), call.x<T>(1), call.y<T>());
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    pass_gradient<T>(exec, call, 0);
    pass_gradient<T>(exec, call, 1);
  }
};

/// Also serves for what changes only the shape.
class Flatten : public Elementwise<Flatten> {
 public:
  using Elementwise<Flatten>::Elementwise;
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.output.data() != call.inputs[0].data()) copy_gradient<T>(exec, call.x<T>(0), call.y<T>(), false);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    pass_gradient<T>(exec, call, 0);
  }
};

class Dropout : public Elementwise<Dropout> {
 public:
  Dropout(const Shape& shape, double probability) : Elementwise(shape), probability_(probability) {}
  [[nodiscard]] LayerNeeds needs(int largest_batch, ValueType type) const override {
    LayerNeeds needs = Elementwise::needs(largest_batch, type);
    needs.random = true;
    return needs;
  }
  template <class T>
  void forward_as(const ExecutionSpace& exec, const LayerCall& call) {
    dropout<T>(exec, call.x<T>(0), call.y<T>(), call.training ? probability_ : 0, call.random_key, false, whole_,
               part_);
  }
  template <class T>
  void backward_as(const ExecutionSpace& exec, const LayerCall& call) {
    if (call.input_gradients[0].size() == 0) return;
    dropout<T>(exec, call.dy<T>(), call.dx<T>(0), probability_, call.random_key, call.accumulate[0], whole_, part_);
  }
  [[nodiscard]] std::unique_ptr<Layer> part(const LayerPart& part) const override {
    std::unique_ptr<Layer> layer = Elementwise::part(part);
    auto& dropout = static_cast<Dropout&>(*layer);
    dropout.whole_ = shape_;
    dropout.part_ = part.output;
    return layer;
  }

 private:
  double probability_;
  Shape whole_{};  ///< where this is a part of it
  Box part_{};
};

}  // namespace

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
