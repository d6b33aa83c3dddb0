#include "nn/reference_networks.hpp"

#include <algorithm>
#include <string>

#include "config/suggest.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

/// Appends layers, each named, to a list.
class Builder {
 public:
  Builder& conv(const std::string& name, int channels, int kernel, int stride, int padding, bool bias) {
    LayerConfig& layer = add("conv", name);
    layer.channels = channels;
    layer.kernel = {kernel, kernel};
    layer.stride = {stride, stride};
    layer.padding = {padding, padding};
    layer.bias = bias;
    return *this;
  }
  Builder& dense(const std::string& name, int channels) {
    add("dense", name).channels = channels;
    return *this;
  }
  Builder& max_pool(const std::string& name) {
    LayerConfig& layer = add("max_pool", name);
    layer.kernel = {2, 2};
    layer.stride = {2, 2};
    return *this;
  }
  Builder& plain(const std::string& type, const std::string& name) {
    add(type, name);
    return *this;
  }
  Builder& from(std::vector<std::string> inputs) {
    layers.back().inputs = std::move(inputs);
    return *this;
  }

  std::vector<LayerConfig> layers;

 private:
  LayerConfig& add(const std::string& type, const std::string& name) {
    LayerConfig layer;
    layer.type = type;
    layer.name = name;
    layers.push_back(layer);
    return layers.back();
  }
};

std::vector<LayerConfig> lenet5(int classes) {
  Builder net;
  net.conv("conv1", 20, 5, 1, 0, true).plain("relu", "relu1").max_pool("pool1");
  net.conv("conv2", 50, 5, 1, 0, true).plain("relu", "relu2").max_pool("pool2");
  net.plain("flatten", "flatten").dense("dense1", 500).plain("relu", "relu3").dense("dense2", classes);
  return net.layers;
}

std::vector<LayerConfig> vgg_small(int classes) {
  Builder net;
  int stage = 0;
  for (const int channels : {64, 128, 256}) {
    const std::string number = std::to_string(++stage);
    for (const char* half : {"a", "b"}) {
      net.conv("conv" + number + half, channels, 3, 1, 1, true).plain("relu", "relu" + number + half);
    }
    net.max_pool("pool" + number);
  }
  net.plain("flatten", "flatten").dense("dense1", 256).plain("relu", "relu4").dense("dense2", classes);
  return net.layers;
}

/// A basic block (He et al., 2016, figure 2), with a projection where shapes change. Returns the name of its output.
std::string basic_block(Builder& net, const std::string& name, const std::string& input, int channels, int stride,
                        bool project) {
  net.conv(name + "_conv1", channels, 3, stride, 1, false).from({input});
  net.plain("batch_norm", name + "_norm1").plain("relu", name + "_relu1");
  net.conv(name + "_conv2", channels, 3, 1, 1, false).plain("batch_norm", name + "_norm2");
  std::string shortcut = input;
  if (project) {
    net.conv(name + "_shortcut", channels, 1, stride, 0, false).from({input});
    net.plain("batch_norm", name + "_shortcut_norm");
    shortcut = name + "_shortcut_norm";
  }
  net.plain("add", name + "_add").from({name + "_norm2", shortcut});
  net.plain("relu", name + "_relu2");
  return name + "_relu2";
}

std::vector<LayerConfig> resnet(const std::vector<int>& widths, int blocks, int classes) {
  Builder net;
  net.conv("stem_conv", widths[0], 3, 1, 1, false).plain("batch_norm", "stem_norm").plain("relu", "stem_relu");
  std::string last = "stem_relu";
  int channels = widths[0];
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    for (int block = 0; block < blocks; ++block) {
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string name = "stage" + std::to_string(stage + 1) + "_block" + std::to_string(block + 1);
      last = basic_block(net, name, last, widths[stage], stride, stride != 1 || channels != widths[stage]);
      channels = widths[stage];
    }
  }
  net.plain("global_avg_pool", "pool").dense("dense", classes);
  return net.layers;
}

}  // namespace

const std::vector<ReferenceNetwork>& reference_networks() {
  static const std::vector<ReferenceNetwork> networks{{"lenet5", {28, 28, 1}, 10, 64},
                                                      {"vgg_small", {32, 32, 3}, 10, 64},
                                                      {"resnet20", {32, 32, 3}, 10, 128},
                                                      {"resnet18", {32, 32, 3}, 10, 32}};
  return networks;
}

const ReferenceNetwork& reference_network(const std::string& name) {
  const std::vector<ReferenceNetwork>& known = reference_networks();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& network) { return network.name == name; });
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const ReferenceNetwork& network : known) names.push_back(network.name);
  fail(name, ": there is no such reference network (", listed(names), ")", did_you_mean(name, names));
}

NetworkConfig expand_network(const NetworkConfig& config, int classes) {
  NetworkConfig expanded = config;
  if (!config.layers.empty()) return expanded;
  if (config.name == "lenet5") {
    expanded.layers = lenet5(classes);
  } else if (config.name == "vgg_small") {
    expanded.layers = vgg_small(classes);
  } else if (config.name == "resnet20") {
    expanded.layers = resnet({16, 32, 64}, 3, classes);
  } else if (config.name == "resnet18") {
    expanded.layers = resnet({64, 128, 256, 512}, 2, classes);
  } else {
    fail("network.name: '", config.name,
         "' is no reference network (lenet5, vgg_small, resnet20, resnet18) and no layers are given");
  }
  return expanded;
}

}  // namespace halograd
