#include "convert/onnx.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "convert/layer_chain.hpp"
#include "convert/onnx_graph.hpp"
#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"
#include "version.hpp"

namespace halograd {
namespace {

constexpr std::int64_t ir_version = 7, operator_set = 13;

/// What is said of the axes D, H, W, for those that a shape has.
std::vector<std::int64_t> of_axes(const std::array<int, 3>& extents, const Shape& shape) {
  std::vector<std::int64_t> values;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (axis + static_cast<std::size_t>(shape.dimensions) >= 3) values.push_back(extents[axis]);
  return values;
}

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
    for (const ChainLink& link : links_) add_layer(link);
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
    for (const std::int64_t extent : spatial(shape)) extents.push_back(extent);
    return extents;
  }
  static std::vector<std::int64_t> spatial(const Shape& shape) { return of_axes(shape.extents(), shape); }

  /// The name of a value of features, by a Flatten where it still has pixels.
  std::string as_flat(int value) {
    const auto at = static_cast<std::size_t>(value);
    if (flat_[at]) return names_[at];
    std::string name = names_[at] + "_features";
    if (flattened_.insert(name).second)
      graph_.add(OnnxNode("Flatten", name, {names_[at]}, name).set("axis", std::int64_t{1}));
    return name;
  }

  void add_layer(const ChainLink& link) {
    const LayerConfig& layer = link.config;
    const std::string& type = layer.type;
    const std::string& name = layer.name;
    const Shape& shape = link.input_shapes.front();
    // Where one input has no pixels any more, those of the others are folded too.
    bool flat = type == "flatten" || type == "dense";
    for (const int value : link.inputs) flat = flat || flat_[static_cast<std::size_t>(value)];
    std::vector<std::string> inputs;
    for (const int value : link.inputs)
      inputs.push_back(flat ? as_flat(value) : names_[static_cast<std::size_t>(value)]);
    const std::string& x = inputs.front();
    if (is_activation(type)) {
      add_activation(graph_, type, layer.slope, name, x);
    } else if (type == "flatten" || type == "dropout") {  // dropout: nothing in inference
      graph_.add("Identity", name, {x});
    } else if (type == "dense") {
      graph_.add(OnnxNode("Gemm", name, with_parameters({x}, layer, {"weight"}), name).set("transB", std::int64_t{1}));
    } else if (type == "conv" || type == "conv_transpose") {
      const bool transposed = type == "conv_transpose";
      OnnxNode node = windowed(
          OnnxNode(transposed ? "ConvTranspose" : "Conv", name, with_parameters({x}, layer, {"weight"}), name), link);
      node.set("dilations", along(layer, "dilation", layer.dilation, shape)).set("group", std::int64_t{layer.groups});
      if (transposed) node.set("output_padding", along(layer, "output_padding", layer.output_padding, shape));
      graph_.add(node);
    } else if (type == "max_pool") {
      graph_.add(windowed(OnnxNode("MaxPool", name, {x}, name), link));
    } else if (type == "avg_pool") {
      graph_.add(windowed(OnnxNode("AveragePool", name, {x}, name), link).set("count_include_pad", std::int64_t{1}));
    } else if (type == "global_avg_pool") {
      graph_.add("GlobalAveragePool", name, {x});
    } else if (type == "upsample") {
      std::vector<float> scales{1, 1};
      for (const std::int64_t factor : along(layer, "factor", layer.factor, shape))
        scales.push_back(static_cast<float>(factor));
      const auto count = static_cast<long>(scales.size());
      graph_.add(OnnxNode("Resize", name, {x, "", graph_.floats(name + "/scales", {count}, scales)}, name)
                     .set("mode", std::string("nearest"))
                     .set("coordinate_transformation_mode", std::string("asymmetric"))
                     .set("nearest_mode", std::string("floor")));
    } else if (type == "batch_norm") {
      for (const char* tensor : {".weight", ".bias", ".running_mean", ".running_var"}) inputs.push_back(name + tensor);
      graph_.add(OnnxNode("BatchNormalization", name, inputs, name).set("epsilon", static_cast<float>(layer.epsilon)));
    } else if (type == "group_norm" || type == "layer_norm") {
      add_norm(graph_,
               {name, type == "group_norm" ? layer.groups : 0, layer.epsilon, shape.channels,
                flat ? std::vector<std::int64_t>() : spatial(shape)},
               x);
    } else if (type == "add") {
      std::string sum = x;
      for (std::size_t i = 1; i < inputs.size(); ++i)
        sum = graph_.add("Add", i + 1 == inputs.size() ? name : name + "_" + std::to_string(i), {sum, inputs[i]});
    } else if (type == "concat") {
      graph_.add(OnnxNode("Concat", name, inputs, name).set("axis", std::int64_t{1}));
    } else {
      fail("layer ", name, " (", type, "): ONNX export does not know this type");
    }
    names_.push_back(name);
    flat_.push_back(flat);
  }

  static std::vector<std::string> with_parameters(std::vector<std::string> inputs, const LayerConfig& layer,
                                                  const std::vector<std::string>& tensors) {
    for (const std::string& tensor : tensors) inputs.push_back(layer.name + "." + tensor);
    if (layer.bias) inputs.push_back(layer.name + ".bias");
    return inputs;
  }

  /// What a key says of each of the input's spatial axes.
  static std::vector<std::int64_t> along(const LayerConfig& layer, const char* key, const std::vector<int>& numbers,
                                         const Shape& input) {
    return of_axes(along_axes(layer, key, numbers, input, 1), input);
  }

  static OnnxNode windowed(OnnxNode writer, const ChainLink& link) {
    const LayerConfig& layer = link.config;
    const Shape& input = link.input_shapes.front();
    std::vector<std::int64_t> pads = along(layer, "padding", layer.padding, input);
    pads.resize(2 * pads.size());
    std::copy_n(pads.begin(), pads.size() / 2, pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2));
    return writer.set("kernel_shape", along(layer, "kernel", layer.kernel, input))
        .set("strides", along(layer, "stride", layer.stride, input))
        .set("pads", pads);
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
                   message.bytes().size(), " bytes, protobuf files have at most ", most);
  return message.bytes();
}

}  // namespace halograd
