#include "convert/onnx_graph.hpp"

#include <cmath>
#include <map>

#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Parts of a layer that are operators of their own: a layer's name has no "/".
std::string part(const std::string& layer, const char* name) {
  return layer + "/" + name;
}

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

}  // namespace

void add_activation(OnnxGraph& graph, const std::string& type, double slope, const std::string& name,
                    const std::string& x) {
  static const std::map<std::string, std::string> operations{
      {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}};
  const auto constant = [&](const char* what, float value) { return graph.floats(part(name, what), {}, {value}); };
  if (const auto found = operations.find(type); found != operations.end()) {
    graph.add(found->second, name, {x});
  } else if (type == "leaky_relu") {
    graph.add(OnnxNode("LeakyRelu", name, {x}, name).set("alpha", static_cast<float>(slope)));
  } else if (type == "relu6") {
    graph.add("Clip", name, {x, constant("least", 0), constant("most", 6)});
  } else if (type == "silu") {
    graph.add("Mul", name, {x, graph.add("Sigmoid", part(name, "sigmoid"), {x})});
  } else if (type == "gelu") {
    const std::string scaled = graph.add("Mul", part(name, "scaled"), {x, constant("scale", std::sqrt(0.5F))});
    const std::string error = graph.add("Erf", part(name, "erf"), {scaled});
    const std::string share = graph.add("Add", part(name, "share"), {error, constant("one", 1)});
    graph.add("Mul", name, {graph.add("Mul", part(name, "half"), {x, constant("a_half", 0.5F)}), share});
  } else {
    fail("layer ", name, " (", type, "): ONNX export does not know this type");
  }
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

}  // namespace halograd
