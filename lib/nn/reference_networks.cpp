#include "nn/reference_networks.hpp"

#include <string>

#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// Appends layers, each named, to a list.
class Builder {
 public:
  Builder& conv(const std::string& name, int channels, int kernel, int stride, int padding, bool bias) {
    LayerConfig& layer = add("conv", name);
    layer.channels = channels;
    layer.kernel = {kernel};
    layer.stride = {stride};
    layer.padding = {padding};
    layer.bias = bias;
    return *this;
  }
  /// The conv just added gets as many groups as channels.
  Builder& depthwise() {
    layers.back().groups = layers.back().channels;
    return *this;
  }
  /// Doubles the extents.
  Builder& grow(const std::string& name, int channels) {
    LayerConfig& layer = add("conv_transpose", name);
    layer.channels = channels;
    layer.kernel = layer.stride = {2};
    return *this;
  }
  Builder& dense(const std::string& name, int channels) {
    add("dense", name).channels = channels;
    return *this;
  }
  Builder& max_pool(const std::string& name, int kernel = 2, int padding = 0) {
    LayerConfig& layer = add("max_pool", name);
    layer.kernel = {kernel};
    layer.stride = {2};
    layer.padding = {padding};
    return *this;
  }
  Builder& leaky(const std::string& name, double slope) {
    add("leaky_relu", name).slope = slope;
    return *this;
  }
  Builder& slice(const std::string& name, int first, int channels) {
    LayerConfig& layer = add("slice", name);
    layer.first = first;
    layer.channels = channels;
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

std::vector<LayerConfig> resnet20(int classes) {
  return resnet({16, 32, 64}, 3, classes);
}

std::vector<LayerConfig> resnet18(int classes) {
  return resnet({64, 128, 256, 512}, 2, classes);
}

/// Convolution, normalisation and, unless `activation` is empty, what follows.
Builder& normalised(Builder& net, const std::string& name, int channels, int kernel, int stride,
                    const std::string& activation, bool depthwise = false) {
  net.conv(name + "_conv", channels, kernel, stride, kernel / 2, false);
  if (depthwise) net.depthwise();
  net.plain("batch_norm", name + "_norm");
  if (!activation.empty()) net.plain(activation, name + "_" + activation);
  return net;
}

std::vector<LayerConfig> resnet50(int classes) {
  Builder net;
  net.conv("stem_conv", 64, 7, 2, 3, false).plain("batch_norm", "stem_norm").plain("relu", "stem_relu");
  net.max_pool("stem_pool", 3, 1);
  std::string last = "stem_pool";
  int stage = 0;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = "stage" + std::to_string(stage + 1) + "_block" + std::to_string(block + 1);
      const int width = 64 << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      net.conv(name + "_conv1", width, 1, 1, 0, false).from({last});
      net.plain("batch_norm", name + "_norm1").plain("relu", name + "_relu1");
      net.conv(name + "_conv2", width, 3, stride, 1, false);
      net.plain("batch_norm", name + "_norm2").plain("relu", name + "_relu2");
      net.conv(name + "_conv3", 4 * width, 1, 1, 0, false).plain("batch_norm", name + "_norm3");
      if (block == 0) {
        net.conv(name + "_shortcut", 4 * width, 1, stride, 0, false).from({last});
        net.plain("batch_norm", name + "_shortcut_norm");
        last = name + "_shortcut_norm";
      }
      net.plain("add", name + "_add").from({name + "_norm3", last}).plain("relu", name + "_relu3");
      last = name + "_relu3";
    }
    ++stage;
  }
  net.plain("global_avg_pool", "pool").dense("dense", classes);
  return net.layers;
}

std::vector<LayerConfig> mobilenet_v2(int classes) {
  struct Stage {
    int expansion, channels, blocks, stride;
  };
  Builder net;
  normalised(net, "stem", 32, 3, 2, "relu6");
  std::string last = "stem_relu6";
  int channels = 32, stage = 0;
  for (const Stage& s : {Stage{1, 16, 1, 1},
                         {6, 24, 2, 2},
                         {6, 32, 3, 2},
                         {6, 64, 4, 2},
                         {6, 96, 3, 1},
                         {6, 160, 3, 2},
                         {6, 320, 1, 1}}) {
    ++stage;
    for (int block = 0; block < s.blocks; ++block) {
      const std::string name = "stage" + std::to_string(stage) + "_block" + std::to_string(block + 1);
      const int stride = block == 0 ? s.stride : 1, width = channels * s.expansion;
      if (s.expansion > 1) normalised(net, name + "_expand", width, 1, 1, "relu6");
      normalised(net, name + "_depthwise", width, 3, stride, "relu6", true);
      normalised(net, name + "_project", s.channels, 1, 1, "");
      const std::string end = name + "_project_norm";
      const bool residual = stride == 1 && channels == s.channels;
      if (residual) net.plain("add", name + "_add").from({end, last});
      last = residual ? name + "_add" : end;
      channels = s.channels;
    }
  }
  normalised(net, "head", 1280, 1, 1, "relu6").plain("global_avg_pool", "pool");
  net.plain("dropout", "dropout");
  net.layers.back().probability = 0.2;
  return net.dense("dense", classes).layers;
}

std::vector<LayerConfig> unet2d(int outputs) {
  Builder net;
  const auto twice = [&](const std::string& name, int channels) {
    normalised(net, name + "a", channels, 3, 1, "relu");
    normalised(net, name + "b", channels, 3, 1, "relu");
  };
  const std::vector<int> widths{32, 64, 128};
  for (std::size_t level = 0; level < widths.size(); ++level) {
    const std::string number = std::to_string(level + 1);
    twice("down" + number, widths[level]);
    net.max_pool("pool" + number);
  }
  twice("bottom", 256);
  for (std::size_t level = widths.size(); level-- > 0;) {
    const std::string number = std::to_string(level + 1);
    net.grow("grow" + number, widths[level]);
    net.plain("concat", "join" + number).from({"grow" + number, "down" + number + "b_relu"});
    twice("up" + number, widths[level]);
  }
  return net.conv("outputs", outputs, 1, 1, 0, true).layers;
}

std::vector<LayerConfig> ffn3d(int outputs) {
  Builder net;
  net.conv("first_conv", 32, 3, 1, 1, true).plain("relu", "first_relu").conv("first", 32, 3, 1, 1, true);
  std::string last = "first";
  for (int module = 1; module <= 4; ++module) {
    const std::string name = "module" + std::to_string(module);
    net.plain("relu", name + "_relu1").from({last}).conv(name + "_conv1", 32, 3, 1, 1, true);
    net.plain("relu", name + "_relu2").conv(name + "_conv2", 32, 3, 1, 1, true);
    net.plain("add", name).from({name + "_conv2", last});
    last = name;
  }
  return net.plain("relu", "last_relu").conv("outputs", outputs, 1, 1, 0, true).layers;
}

/// The mask comes first among the input's channels, in logits; the network adds to it.
std::vector<LayerConfig> ffn(int outputs) {
  Builder net;
  net.layers = ffn3d(outputs);
  return net.slice("mask", 0, outputs).from({"input"}).plain("add", "logits").from({"outputs", "mask"}).layers;
}

/// MLPerf's convolutions see a pixel and the next along each axis, with zeros behind the last: with zeros before the
/// first and after it, of which pooling drops the latter, it is the same network of mirrored volumes.
std::vector<LayerConfig> cosmoflow(int outputs) {
  Builder net;
  for (int stage = 1; stage <= 5; ++stage) {
    const std::string number = std::to_string(stage);
    net.conv("conv" + number, 16 << stage, 2, 1, 1, true).leaky("leaky" + number, 0.3).max_pool("pool" + number);
  }
  net.plain("flatten", "flatten");
  int number = 0;
  for (const int units : {128, 64}) {
    const std::string end = std::to_string(++number);
    net.dense("dense" + end, units).leaky("dense_leaky" + end, 0.3).plain("dropout", "dropout" + end);
  }
  net.dense("outputs", outputs).plain("tanh", "bounded");
  net.layers.back().scale = 1.2;
  return net.layers;
}

}  // namespace

const std::vector<ReferenceNetwork>& reference_networks() {
  constexpr auto classes = "cross_entropy", tubes = "binary_cross_entropy", numbers = "mean_squared_error";
  static const std::vector<ReferenceNetwork> networks{
      {"lenet5", "5x5 convolutions of 20 and 50 channels, 500 hidden units (LeCun et al., 1998, as Caffe has it)",
       Shape{28, 28, 1}, 10, 64, classes, false, lenet5},
      {"vgg_small", "six 3x3 convolutions of 64 to 256 channels, 256 hidden units (after Simonyan and Zisserman, 2015)",
       Shape{32, 32, 3}, 10, 64, classes, false, vgg_small},
      {"resnet20",
       "16, 32 and 64 channels, three blocks each (He et al., 2016, section 4.2, with projection shortcuts)",
       Shape{32, 32, 3}, 10, 128, classes, false, resnet20},
      {"resnet18", "64 to 512 channels, two blocks each, 3x3 stem (He et al., 2016)", Shape{32, 32, 3}, 10, 32, classes,
       false, resnet18},
      {"resnet50", "bottleneck blocks with the stride in their 3x3 convolutions (He et al., 2016, as torchvision)",
       Shape{224, 224, 3}, 1000, 8, classes, false, resnet50},
      {"mobilenet_v2", "inverted residuals of depthwise convolutions (Sandler et al., 2018, as torchvision)",
       Shape{224, 224, 3}, 1000, 16, classes, false, mobilenet_v2},
      {"unet2d",
       "outputs per pixel, extents divisible by 8: 32 to 256 channels, batch-norm, transposed convolutions (after "
       "Ronneberger et al., 2015)",
       Shape{128, 128, 1}, 2, 8, tubes, true, unet2d},
      {"ffn3d",
       "outputs per voxel: four residual modules of 3x3x3 convolutions of 32 channels (after the flood-filling "
       "networks of Januszewski et al., 2018)",
       Shape{16, 16, 16, 1}, 2, 8, tubes, true, ffn3d},
      {"ffn",
       "flood filling: adds to the mask of one object, the first channel, what its surroundings say of it; ffn3d's "
       "modules (Januszewski et al., 2018)",
       Shape{17, 17, 17, 2}, 2, 4, tubes, true, ffn},
      {"cosmoflow",
       "numbers of a volume: five 2x2x2 convolutions of 32 to 512 channels, outputs within 1.2 of 0 (Mathuriya et al., "
       "2018, as MLPerf HPC has it)",
       Shape{128, 128, 128, 4}, 4, 1, numbers, false, cosmoflow}};
  return networks;
}

const ReferenceNetwork& reference_network(const std::string& name) {
  if (const ReferenceNetwork* const found = find_row(reference_networks(), name)) return *found;
  const std::vector<std::string> names = names_of(reference_networks());
  fail(name, ": there is no such reference network (", listed(names), ")", did_you_mean(name, names));
}

NetworkConfig expand_network(const NetworkConfig& config, int outputs) {
  NetworkConfig expanded = config;
  if (config.layers.empty()) expanded.layers = reference_network(config.name).layers(outputs);
  return expanded;
}

}  // namespace halograd
