#include "convert/onnx_layers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.hpp"
#include "nn/layers/layers.hpp"
#include "support/table.hpp"

namespace halograd {
namespace {

/// What is said of the axes D, H, W, for those that a shape has.
std::vector<std::int64_t> of_axes(const std::array<int, 3>& extents, const Shape& shape) {
  std::vector<std::int64_t> values;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (axis + static_cast<std::size_t>(shape.dimensions) >= 3) values.push_back(extents[axis]);
  }
  return values;
}

/// What a key says of each of the input's spatial axes.
std::vector<std::int64_t> along(const OnnxLayer& layer, const char* key, const std::vector<int>& numbers) {
  return of_axes(along_axes(layer.config(), key, numbers, layer.shape(), 1), layer.shape());
}

/// Parts of a layer that are operators of their own: a layer's name has no "/".
std::string part(const std::string& layer, const char* name) {
  return layer + "/" + name;
}

/// A constant that a layer needs.
std::string constant(OnnxGraph& graph, const OnnxLayer& layer, const char* name, float value) {
  return graph.floats(part(layer.name(), name), {}, {value});
}

/// The layer as one operator without attributes.
void add_operation(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(operation, layer.name(), layer.inputs);
}

OnnxNode node_with_weights(const char* operation, const OnnxLayer& layer) {
  std::vector<std::string> inputs{layer.inputs.front(), layer.name() + ".weight"};
  if (layer.config().bias) inputs.push_back(layer.name() + ".bias");
  return {operation, layer.name(), inputs, layer.name()};
}

OnnxNode windowed(OnnxNode node, const OnnxLayer& layer) {
  const LayerConfig& config = layer.config();
  std::vector<std::int64_t> pads = along(layer, "padding", config.padding);
  pads.resize(2 * pads.size());
  std::copy_n(pads.begin(), pads.size() / 2, pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2));
  return node.set("kernel_shape", along(layer, "kernel", config.kernel))
      .set("strides", along(layer, "stride", config.stride))
      .set("pads", pads);
}

OnnxNode convolution(const char* operation, const OnnxLayer& layer) {
  OnnxNode node = windowed(node_with_weights(operation, layer), layer);
  return node.set("dilations", along(layer, "dilation", layer.config().dilation))
      .set("group", std::int64_t{layer.config().groups});
}

void add_conv(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(convolution(operation, layer));
}

void add_conv_transpose(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(convolution(operation, layer)
                .set("output_padding", along(layer, "output_padding", layer.config().output_padding)));
}

void add_dense(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(node_with_weights(operation, layer).set("transB", std::int64_t{1}));
}

void add_max_pool(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(windowed(OnnxNode(operation, layer.name(), layer.inputs, layer.name()), layer));
}

void add_avg_pool(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(windowed(OnnxNode(operation, layer.name(), layer.inputs, layer.name()), layer)
                .set("count_include_pad", std::int64_t{1}));
}

void add_upsample(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  std::vector<float> scales{1, 1};
  for (const std::int64_t factor : along(layer, "factor", layer.config().factor)) {
    scales.push_back(static_cast<float>(factor));
  }
  const auto count = static_cast<long>(scales.size());
  const std::string factors = graph.floats(part(layer.name(), "scales"), {count}, scales);
  graph.add(OnnxNode(operation, layer.name(), {layer.inputs.front(), "", factors}, layer.name())
                .set("mode", std::string("nearest"))
                .set("coordinate_transformation_mode", std::string("asymmetric"))
                .set("nearest_mode", std::string("floor")));
}

void add_batch_norm(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  std::vector<std::string> inputs = layer.inputs;
  for (const char* tensor : {".weight", ".bias", ".running_mean", ".running_var"}) {
    inputs.push_back(layer.name() + tensor);
  }
  graph.add(OnnxNode(operation, layer.name(), inputs, layer.name())
                .set("epsilon", static_cast<float>(layer.config().epsilon)));
}

/// Values (N, C, S...) with mean 0 and variance 1 over each group of channels, or over the channels of each pixel where
/// `groups` is 0, then times <layer>.weight (C) plus <layer>.bias (C). `spatial`: S.
struct OnnxNorm {
  std::string layer;
  int groups = 0;
  double epsilon = 0;
  std::int64_t channels = 0;
  std::vector<std::int64_t> spatial;
};

/// Mean 0 and variance 1 over groups of channels: one instance normalisation of (N, groups, values of a group).
std::string normal_groups(OnnxGraph& graph, const OnnxNorm& norm, const std::string& x) {
  const auto named = [&](const char* name) { return part(norm.layer, name); };
  const auto groups = static_cast<std::size_t>(norm.groups);
  const std::string shape = graph.integers(named("group_shape"), {0, norm.groups, -1});
  const std::string grouped = graph.add("Reshape", named("grouped"), {x, shape});
  const std::string ones = graph.floats(named("ones"), {norm.groups}, std::vector<float>(groups, 1.0F));
  const std::string zeros = graph.floats(named("zeros"), {norm.groups}, std::vector<float>(groups, 0.0F));
  const std::string normal = named("normal_groups");
  graph.add(OnnxNode("InstanceNormalization", normal, {grouped, ones, zeros}, normal)
                .set("epsilon", static_cast<float>(norm.epsilon)));
  std::vector<std::int64_t> extents{0, norm.channels};
  extents.insert(extents.end(), norm.spatial.begin(), norm.spatial.end());
  return graph.add("Reshape", named("normal"), {normal, graph.integers(named("shape"), extents)});
}

/// The same over the channels of each pixel.
std::string normal_pixels(OnnxGraph& graph, const OnnxNorm& norm, const std::string& x) {
  const auto named = [&](const char* name) { return part(norm.layer, name); };
  const auto mean_of = [&](const char* name, const std::string& values) {
    graph.add(OnnxNode("ReduceMean", named(name), {values}, named(name)).set("axes", std::vector<std::int64_t>{1}));
    return named(name);
  };
  const std::string centred = graph.add("Sub", named("centred"), {x, mean_of("mean", x)});
  const std::string variance = mean_of("variance", graph.add("Mul", named("square"), {centred, centred}));
  const std::string epsilon = graph.floats(named("epsilon"), {}, {static_cast<float>(norm.epsilon)});
  const std::string above = graph.add("Add", named("variance_above_0"), {variance, epsilon});
  return graph.add("Div", named("normal"), {centred, graph.add("Sqrt", named("deviation"), {above})});
}

void add_norm(OnnxGraph& graph, const OnnxNorm& norm, const std::string& x) {
  const auto named = [&](const char* name) { return part(norm.layer, name); };
  const std::string normal = norm.groups > 0 ? normal_groups(graph, norm, x) : normal_pixels(graph, norm, x);
  std::string weight = norm.layer + ".weight", bias = norm.layer + ".bias";
  if (!norm.spatial.empty()) {  // (C, 1...), so that they are spread over the pixels
    std::vector<std::int64_t> extents(1 + norm.spatial.size(), 1);
    extents.front() = norm.channels;
    const std::string shape = graph.integers(named("channel_shape"), extents);
    weight = graph.add("Reshape", named("weight"), {weight, shape});
    bias = graph.add("Reshape", named("bias"), {bias, shape});
  }
  graph.add("Add", norm.layer, {graph.add("Mul", named("scaled"), {normal, weight}), bias});
}

OnnxNorm norm_of(const OnnxLayer& layer, int groups) {
  return {layer.name(), groups, layer.config().epsilon, layer.shape().channels,
          layer.flat ? std::vector<std::int64_t>() : spatial_extents(layer.shape())};
}

void add_group_norm(OnnxGraph& graph, const char* /*operation*/, const OnnxLayer& layer) {
  add_norm(graph, norm_of(layer, layer.config().groups), layer.inputs.front());
}

void add_layer_norm(OnnxGraph& graph, const char* /*operation*/, const OnnxLayer& layer) {
  add_norm(graph, norm_of(layer, 0), layer.inputs.front());
}

void add_leaky_relu(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(OnnxNode(operation, layer.name(), layer.inputs, layer.name())
                .set("alpha", static_cast<float>(layer.config().slope)));
}

void add_tanh(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  if (layer.config().scale == 1) return add_operation(graph, operation, layer);
  const std::string value = graph.add(operation, part(layer.name(), "value"), layer.inputs);
  const std::string scale = constant(graph, layer, "scale", static_cast<float>(layer.config().scale));
  graph.add("Mul", layer.name(), {value, scale});
}

void add_relu6(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(operation, layer.name(),
            {layer.inputs.front(), constant(graph, layer, "least", 0), constant(graph, layer, "most", 6)});
}

void add_silu(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  const std::string& x = layer.inputs.front();
  graph.add(operation, layer.name(), {x, graph.add("Sigmoid", part(layer.name(), "sigmoid"), {x})});
}

void add_gelu(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  const std::string &name = layer.name(), &x = layer.inputs.front();
  const std::string scale = constant(graph, layer, "scale", std::sqrt(0.5F));
  const std::string scaled = graph.add("Mul", part(name, "scaled"), {x, scale});
  const std::string error = graph.add("Erf", part(name, "erf"), {scaled});
  const std::string one = constant(graph, layer, "one", 1);
  const std::string share = graph.add("Add", part(name, "share"), {error, one});
  const std::string a_half = constant(graph, layer, "a_half", 0.5F);
  graph.add(operation, name, {graph.add("Mul", part(name, "half"), {x, a_half}), share});
}

void add_concat(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  graph.add(OnnxNode(operation, layer.name(), layer.inputs, layer.name()).set("axis", std::int64_t{1}));
}

void add_slice(OnnxGraph& graph, const char* operation, const OnnxLayer& layer) {
  const LayerConfig& config = layer.config();
  const auto number = [&](const char* what, std::int64_t value) {
    return graph.integers(part(layer.name(), what), {value});
  };
  graph.add(OnnxNode(operation, layer.name(),
                     {layer.inputs.front(), number("begin", config.first),
                      number("end", std::int64_t{config.first} + config.channels), number("axis", 1)},
                     layer.name()));
}

/// How a layer type is written.
struct OnnxRow {
  const char* name;
  Fact<const char*> operation;  ///< the operator that gives the layer's output
  Fact<void (*)(OnnxGraph& graph, const char* operation, const OnnxLayer& layer)> add;
};

constexpr OnnxRow onnx_rows[] = {{"conv", "Conv", add_conv},
                                 {"conv_transpose", "ConvTranspose", add_conv_transpose},
                                 {"dense", "Gemm", add_dense},
                                 {"max_pool", "MaxPool", add_max_pool},
                                 {"avg_pool", "AveragePool", add_avg_pool},
                                 {"global_avg_pool", "GlobalAveragePool", add_operation},
                                 {"upsample", "Resize", add_upsample},
                                 {"batch_norm", "BatchNormalization", add_batch_norm},
                                 {"group_norm", "Add", add_group_norm},
                                 {"layer_norm", "Add", add_layer_norm},
                                 {"relu", "Relu", add_operation},
                                 {"relu6", "Clip", add_relu6},
                                 {"leaky_relu", "LeakyRelu", add_leaky_relu},
                                 {"sigmoid", "Sigmoid", add_operation},
                                 {"tanh", "Tanh", add_tanh},
                                 {"gelu", "Mul", add_gelu},
                                 {"silu", "Mul", add_silu},
                                 {"add", "Add", add_operation},
                                 {"concat", "Concat", add_concat},
                                 {"slice", "Slice", add_slice},
                                 {"flatten", "Identity", add_operation},
                                 {"dropout", "Identity", add_operation}};  // nothing in inference

}  // namespace

std::vector<std::int64_t> spatial_extents(const Shape& shape) {
  return of_axes(shape.extents(), shape);
}

void add_layer(OnnxGraph& graph, const OnnxLayer& layer) {
  const OnnxRow* const row = find_row(onnx_rows, layer.config().type);
  HALOGRAD_REQUIRE(row != nullptr, "layer ", layer.name(), " (", layer.config().type,
                   "): ONNX export does not know this type");
  row->add(graph, row->operation, layer);
}

}  // namespace halograd
