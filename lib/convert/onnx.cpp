#include "convert/onnx.hpp"

#include <limits>
#include <set>
#include <vector>

#include "convert/onnx_layers.hpp"
#include "kernels/error.hpp"
#include "version.hpp"

namespace halograd {
namespace {

constexpr std::int64_t ir_version = 7, operator_set = 13;

/// A value's name, float type and extents; extent 0 is the free `batch`.
ProtobufMessage value_info(const std::string& name, const std::vector<std::int64_t>& extents) {
  ProtobufMessage shape, tensor_type, type, info;
  for (const std::int64_t extent : extents) {
    ProtobufMessage dimension;
    extent == 0 ? dimension.add(2, std::string("batch")) : dimension.add(1, extent);
    shape.add(1, dimension);
  }
  tensor_type.add(1, std::int64_t{onnx::tensor::type_float});
  tensor_type.add(2, shape);
  type.add(1, tensor_type);
  info.add(1, name);
  info.add(2, type);
  return info;
}

class GraphWriter {
 public:
  GraphWriter(const NetworkConfig& config, const Shape& input) : links_(chain_layers(config, input)), input_(input) {
    names_.push_back("images");
    flat_.push_back(false);
  }

  ProtobufMessage write(const std::string& name, const StateDict& state) {
    for (const ChainLink& link : links_) append(link);
    // Outputs a pixel keep their axes, those of an image are features.
    const bool a_pixel = links_.back().output.pixels() > 1 && !flat_.back();
    graph_.add("Identity", "logits", {a_pixel ? names_.back() : as_flat(static_cast<int>(links_.size()))});
    for (const StateTensor& tensor : state)
      if (tensor.integers.empty()) graph_.floats(tensor.name, tensor.extents, tensor.values);
    const Shape& output = links_.back().output;
    ProtobufMessage& message = graph_.message();
    message.add(onnx::graph::name, name);
    message.add(onnx::graph::input, value_info("images", channels_first(input_)));
    message.add(
        onnx::graph::output,
        value_info("logits", a_pixel ? channels_first(output)
                                     : std::vector<std::int64_t>{0, static_cast<std::int64_t>(output.values())}));
    return message;
  }

 private:
  static std::vector<std::int64_t> channels_first(const Shape& shape) {
    std::vector<std::int64_t> extents{0, shape.channels};
    for (const std::int64_t extent : spatial_extents(shape)) extents.push_back(extent);
    return extents;
  }

  /// The name of a value of features, by a Flatten where it still has pixels.
  std::string as_flat(int value) {
    const auto at = static_cast<std::size_t>(value);
    if (flat_[at]) return names_[at];
    std::string name = names_[at] + "_features";
    if (flattened_.insert(name).second)
      graph_.add(OnnxNode("Flatten", name, {names_[at]}, name).set("axis", std::int64_t{1}));
    return name;
  }

  void append(const ChainLink& link) {
    // Where one input has no pixels any more, those of the others are folded too.
    const Features features = type_of(link.config).features;
    bool flat = features == Features::folded || features == Features::mixed;
    for (const int value : link.inputs) flat = flat || flat_[static_cast<std::size_t>(value)];
    std::vector<std::string> inputs;
    for (const int value : link.inputs)
      inputs.push_back(flat ? as_flat(value) : names_[static_cast<std::size_t>(value)]);
    add_layer(graph_, {link, inputs, flat});
    names_.push_back(link.config.name);
    flat_.push_back(flat);
  }

  std::vector<ChainLink> links_;
  Shape input_;
  OnnxGraph graph_;
  std::vector<std::string> names_;  ///< of the values
  std::vector<bool> flat_;          ///< whether ONNX's value has no spatial axes
  std::set<std::string> flattened_;
};

}  // namespace

std::string onnx_model(const NetworkConfig& config, const Shape& input, const StateDict& state,
                       const std::map<std::string, std::string>& facts) {
  ProtobufMessage operators, message;
  operators.add(1, std::string());
  operators.add(2, operator_set);
  message.add(onnx::model::ir_version, ir_version);
  message.add(onnx::model::producer_name, std::string("halograd"));
  message.add(onnx::model::producer_version, std::string(HALOGRAD_VERSION));
  message.add(onnx::model::graph, GraphWriter(config, input).write(config.name, state));
  message.add(onnx::model::operator_set, operators);
  for (const auto& [key, value] : facts) {
    ProtobufMessage entry;
    entry.add(1, key);
    entry.add(2, value);
    message.add(onnx::model::metadata, entry);
  }
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  HALOGRAD_REQUIRE(message.bytes().size() <= most, "the ONNX model of '", config.name, "' would have ",
                   message.bytes().size(), " bytes, but protobuf files have at most ", most);
  return message.bytes();
}

}  // namespace halograd
