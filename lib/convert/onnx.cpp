#include "convert/onnx.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "convert/layer_chain.hpp"
#include "convert/protobuf.hpp"
#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"
#include "version.hpp"

namespace halograd {
namespace {

// Field numbers and codes of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
namespace model {
enum { ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, operator_set = 8, metadata = 14 };
}
namespace graph {
enum { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
}
namespace node {
enum { input = 1, output = 2, name = 3, operation = 4, attribute = 5 };
}
namespace attribute {
enum { name = 1, f = 2, i = 3, ints = 8, type = 20, type_float = 1, type_int = 2, type_ints = 7 };
}
namespace tensor {
enum { dims = 1, data_type = 2, name = 8, raw_data = 9, type_float = 1 };
}
constexpr std::int64_t ir_version = 7, operator_set = 13;

/// What is said of the axes D, H, W, for those that a shape has.
std::vector<std::int64_t> of_axes(const std::array<int, 3>& extents, const Shape& shape) {
  std::vector<std::int64_t> values;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (axis + static_cast<std::size_t>(shape.dimensions) >= 3) values.push_back(extents[axis]);
  return values;
}

class NodeWriter {
 public:
  NodeWriter(const std::string& operation, const std::string& name, const std::vector<std::string>& inputs,
             const std::string& output) {
    for (const std::string& input : inputs) message_.add(node::input, input);
    message_.add(node::output, output);
    message_.add(node::name, name);
    message_.add(node::operation, operation);
  }
  NodeWriter& set(const std::string& name, std::int64_t value) {
    return set(name, attribute::type_int, [&](ProtobufMessage& m) { m.add(attribute::i, value); });
  }
  NodeWriter& set(const std::string& name, float value) {
    return set(name, attribute::type_float, [&](ProtobufMessage& m) { m.add(attribute::f, value); });
  }
  NodeWriter& set(const std::string& name, const std::vector<std::int64_t>& values) {
    return set(name, attribute::type_ints, [&](ProtobufMessage& m) {
      for (const std::int64_t value : values) m.add(attribute::ints, value);
    });
  }
  [[nodiscard]] const ProtobufMessage& message() const { return message_; }

 private:
  template <class AddValue>
  NodeWriter& set(const std::string& name, int type, const AddValue& add_value) {
    ProtobufMessage entry;
    entry.add(attribute::name, name);
    add_value(entry);
    entry.add(attribute::type, std::int64_t{type});
    message_.add(node::attribute, entry);
    return *this;
  }
  ProtobufMessage message_;
};

/// A value's name, float type and extents; extent 0 is the free `batch`.
ProtobufMessage value_info(const std::string& name, const std::vector<std::int64_t>& extents) {
  ProtobufMessage shape, tensor_type, type, info;
  for (const std::int64_t extent : extents) {
    ProtobufMessage dimension;
    extent == 0 ? dimension.add(2, std::string("batch")) : dimension.add(1, extent);
    shape.add(1, dimension);
  }
  tensor_type.add(1, std::int64_t{tensor::type_float});
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
    const std::string last = as_flat(static_cast<int>(links_.size()));
    graph_.add(graph::node, NodeWriter("Identity", "logits", {last}, "logits").message());
    graph_.add(graph::name, name);
    for (const StateTensor& tensor : state)
      if (tensor.integers.empty()) add_tensor(tensor);
    graph_.add(graph::input, value_info("images", channels_first(input_)));
    graph_.add(graph::output, value_info("logits", {0, static_cast<std::int64_t>(links_.back().output.values())}));
    return graph_;
  }

 private:
  static std::vector<std::int64_t> channels_first(const Shape& shape) {
    std::vector<std::int64_t> extents{0, shape.channels};
    for (const std::int64_t extent : spatial(shape)) extents.push_back(extent);
    return extents;
  }
  static std::vector<std::int64_t> spatial(const Shape& shape) { return of_axes(shape.extents(), shape); }

  void add_tensor(const StateTensor& tensor) {
    ProtobufMessage message;
    for (const long extent : tensor.extents) message.add(tensor::dims, static_cast<std::int64_t>(extent));
    message.add(tensor::data_type, std::int64_t{tensor::type_float});
    message.add(tensor::name, tensor.name);
    message.add(tensor::raw_data,
                std::string(reinterpret_cast<const char*>(tensor.values.data()), 4 * tensor.values.size()));
    graph_.add(graph::initializer, message);
  }

  /// The name of a value of features, by a Flatten where it still has pixels.
  std::string as_flat(int value) {
    const auto at = static_cast<std::size_t>(value);
    if (flat_[at]) return names_[at];
    std::string name = names_[at] + "_features";
    if (flattened_.insert(name).second)
      graph_.add(graph::node, NodeWriter("Flatten", name, {names_[at]}, name).set("axis", std::int64_t{1}).message());
    return name;
  }

  void add_layer(const ChainLink& link) {
    const LayerConfig& layer = link.config;
    const std::string& type = layer.type;
    const auto input = [&](std::size_t i) { return names_[static_cast<std::size_t>(link.inputs[i])]; };
    bool flat = flat_[static_cast<std::size_t>(link.inputs.front())];
    if (type == "flatten" || type == "dense") {
      const std::string features = as_flat(link.inputs.front());
      flat = true;
      if (type == "flatten") {
        add(NodeWriter("Identity", layer.name, {features}, layer.name));
      } else {
        add(NodeWriter("Gemm", layer.name, with_parameters({features}, layer, {"weight"}), layer.name)
                .set("transB", std::int64_t{1}));
      }
    } else if (type == "conv") {
      add(windowed(NodeWriter("Conv", layer.name, with_parameters({input(0)}, layer, {"weight"}), layer.name), link)
              .set("dilations", along(layer, "dilation", layer.dilation, link.input_shapes.front()))
              .set("group", std::int64_t{layer.groups}));
    } else if (type == "max_pool") {
      add(windowed(NodeWriter("MaxPool", layer.name, {input(0)}, layer.name), link));
    } else if (type == "avg_pool") {
      add(windowed(NodeWriter("AveragePool", layer.name, {input(0)}, layer.name), link)
              .set("count_include_pad", std::int64_t{1}));
    } else if (type == "global_avg_pool") {
      add(NodeWriter("GlobalAveragePool", layer.name, {input(0)}, layer.name));
    } else if (type == "batch_norm") {
      std::vector<std::string> inputs{input(0)};
      for (const char* tensor : {".weight", ".bias", ".running_mean", ".running_var"})
        inputs.push_back(layer.name + tensor);
      add(NodeWriter("BatchNormalization", layer.name, inputs, layer.name)
              .set("epsilon", static_cast<float>(layer.epsilon)));
    } else if (type == "relu") {
      add(NodeWriter("Relu", layer.name, {input(0)}, layer.name));
    } else if (type == "dropout") {  // nothing in inference
      add(NodeWriter("Identity", layer.name, {input(0)}, layer.name));
    } else if (type == "add") {
      std::string sum = input(0);
      for (std::size_t i = 1; i < link.inputs.size(); ++i) {
        const std::string next = i + 1 == link.inputs.size() ? layer.name : layer.name + "_" + std::to_string(i);
        add(NodeWriter("Add", next, {sum, input(i)}, next));
        sum = next;
      }
    } else {
      fail("layer ", layer.name, " (", type, "): ONNX export does not know this type");
    }
    names_.push_back(layer.name);
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

  static NodeWriter windowed(NodeWriter writer, const ChainLink& link) {
    const LayerConfig& layer = link.config;
    const Shape& input = link.input_shapes.front();
    std::vector<std::int64_t> pads = along(layer, "padding", layer.padding, input);
    pads.resize(2 * pads.size());
    std::copy_n(pads.begin(), pads.size() / 2, pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2));
    return writer.set("kernel_shape", along(layer, "kernel", layer.kernel, input))
        .set("strides", along(layer, "stride", layer.stride, input))
        .set("pads", pads);
  }

  void add(const NodeWriter& writer) { graph_.add(graph::node, writer.message()); }

  std::vector<ChainLink> links_;
  Shape input_;
  ProtobufMessage graph_;
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
  message.add(model::ir_version, ir_version);
  message.add(model::producer_name, std::string("halograd"));
  message.add(model::producer_version, std::string(HALOGRAD_VERSION));
  message.add(model::graph, GraphWriter(config, input).write(config.name, state));
  message.add(model::operator_set, operators);
  for (const auto& [key, value] : facts) {
    ProtobufMessage entry;
    entry.add(1, key);
    entry.add(2, value);
    message.add(model::metadata, entry);
  }
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  HALOGRAD_REQUIRE(message.bytes().size() <= most, "the ONNX model of '", config.name, "' would have ",
                   message.bytes().size(), " bytes, protobuf files have at most ", most);
  return message.bytes();
}

}  // namespace halograd
