#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/conv.hpp"
#include "kernels/rank_sums.hpp"
#include "kernels/shape.hpp"
#include "kernels/types.hpp"
#include "nn/layer_types.hpp"

namespace halograd {

/// How a tensor starts: constant, or normal with variance 2 / fan_in (He et al., 2015).
struct Initial {
  double constant = 0;
  long fan_in = 0;  ///< > 0: He normal
};

/// A tensor that a layer asks for: a parameter (trained) or a statistic (tracked).
struct TensorSpec {
  std::string name;  ///< "weight", "bias", "running_mean"
  std::vector<long> extents;
  Initial initial;
};

/// What a layer's backward can zero where its first input is the output of a ReLU and not positive.
enum class Mask {
  none,
  own,  ///< what it gives to that input's gradient
  sum   ///< that and what other layers gave before
};

/// What a network stores its values in: activations and their gradients.
enum class ValueType { float32, bf16 };

/// body(a value of that type), which is there for its type alone.
template <class Body>
decltype(auto) with_value_type(ValueType type, const Body& body) {
  if (type == ValueType::bf16) return body(Bfloat16());
  return body(float());
}

/// What the planner needs to know to place a layer's buffers.
struct LayerNeeds {
  bool backward_reads_input = true;
  bool backward_reads_output = false;
  bool in_place = false;           ///< the output may overwrite an input, whose gradient may overwrite the output's
  int in_place_input = 0;          ///< that input; backward does not read it
  bool gradient_in_place = false;  ///< only the first input's gradient may overwrite the output's
  Mask mask = Mask::none;
  bool hands_on = false;  ///< the output holds the input's values as they are: what reads it can mask for this layer
  long input_in_output = -1;        ///< the byte of the output from which the input may lie in it; -1: nowhere
  bool random = false;              ///< depends on LayerCall::random_key
  std::size_t saved_bytes = 0;      ///< kept from forward to backward
  std::size_t workspace_bytes = 0;  ///< scratch within one call
  std::size_t summed = 0;           ///< numbers that `add` of a part is given at once
};

/// A layer's buffers for one call. `batch` images are valid in each. Values are bytes here: a layer asks for them by
/// x<T> and so on, T being the type of all.
struct LayerCall {
  ValueType type = ValueType::float32;
  int batch = 0;
  bool training = false;
  Precision precision = Precision::full;
  std::uint64_t random_key = 0;  ///< differs by seed, step, rank and layer
  std::vector<Vector<const std::byte>> inputs;
  Vector<std::byte> output;
  std::vector<Vector<const float>> parameters;  ///< in the order of Layer::parameters
  std::vector<Vector<float>> statistics;        ///< in the order of Layer::statistics
  Vector<std::byte> saved;
  Vector<std::byte> workspace;
  // backward only
  Vector<std::byte> output_gradient;               ///< already taken back through the epilogue
  std::vector<Vector<std::byte>> input_gradients;  ///< empty where nobody needs it
  std::vector<bool> accumulate;                    ///< add to input_gradients[i] instead of overwriting
  bool mask =
      false;  ///< take the first input's gradient back through the ReLU that made that input (set for forward too)
  std::vector<Vector<float>> parameter_gradients;  ///< overwritten

  template <class T>
  [[nodiscard]] Vector<const T> x(std::size_t i) const {
    return values_of<T>(inputs[i]);
  }
  template <class T>
  [[nodiscard]] Vector<T> y() const {
    return values_of<T>(output);
  }
  template <class T>
  [[nodiscard]] Vector<const T> dy() const {
    return values_of<T>(output_gradient);
  }
  template <class T>
  [[nodiscard]] Vector<T> dx(std::size_t i) const {
    return values_of<T>(input_gradients[i]);
  }
};

/// What a rank of a group computes of a layer (nn/space.hpp).
struct LayerPart {
  Box output;
  std::vector<Box> inputs;  ///< what Layer::reads says, or more where the layer takes_more
  AddOverRanks add;         ///< sums over the ranks of the group
};

/// What a rank of a group computes of a layer that multiplies channels.
struct ChannelPart {
  int rank, ranks;
  AddOverRanks add;  ///< sums over the ranks of the group
};

/// One node of a network. Made by make_layer, which is told the shapes of its inputs.
class Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual Shape output_shape() const = 0;
  [[nodiscard]] virtual std::vector<TensorSpec> parameters() const { return {}; }
  [[nodiscard]] virtual std::vector<TensorSpec> statistics() const { return {}; }
  [[nodiscard]] virtual LayerNeeds needs(int largest_batch, ValueType type) const = 0;
  [[nodiscard]] virtual double forward_flops() const { return 0; }  ///< an image
  virtual void forward(const ExecutionSpace& exec, const LayerCall& call) = 0;
  virtual void backward(const ExecutionSpace& exec, const LayerCall& call) = 0;

  /// The pixels of an input that those of a box of the output are computed from.
  [[nodiscard]] virtual Box reads(std::size_t /*input*/, const Box& output) const { return output; }
  /// Whether parts of inputs may go on behind what reads() says.
  [[nodiscard]] virtual bool takes_more() const { return false; }
  /// The layer for a part of its output, and no more of its inputs than that needs. Asked only where the output can be
  /// divided: it has more than one pixel.
  [[nodiscard]] virtual std::unique_ptr<Layer> part(const LayerPart& part) const = 0;
  /// The layer with all of its inputs and outputs, of which the rank multiplies its range of the input's channels and
  /// the group adds up what its ranks get; null where there are not as many channels, or the layer is no such product.
  [[nodiscard]] virtual std::unique_ptr<Layer> channel_part(const ChannelPart& /*part*/) const { return nullptr; }
};

/// A layer by its passes for values of any type: Derived has forward_as<T>(exec, call) and backward_as<T>(exec, call).
template <class Derived>
class LayerOf : public Layer {
 public:
  void forward(const ExecutionSpace& exec, const LayerCall& call) final {
    with_value_type(call.type, [&](auto value) { derived().template forward_as<decltype(value)>(exec, call); });
  }
  void backward(const ExecutionSpace& exec, const LayerCall& call) final {
    with_value_type(call.type, [&](auto value) { derived().template backward_as<decltype(value)>(exec, call); });
  }

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }
};

/// A layer of the type that `config` names (layer_types), for inputs of these shapes. Throws Error with the layer's
/// name where there is no such type or the shapes do not fit.
std::unique_ptr<Layer> make_layer(const LayerConfig& config, const std::vector<Shape>& inputs,
                                  const Epilogue& epilogue = {});

}  // namespace halograd
