// Networks whose activations are divided among the ranks of a group, beside the same networks on one rank.
#include "nn/space.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "kernels/error.hpp"
#include "nn/network.hpp"
#include "nn/reference_networks.hpp"
#include "support/text.hpp"
#include "tests/kernels/buffers.hpp"
#include "tests/mpi/ranks.hpp"
#include "window/group_window.hpp"

namespace halograd::space_mpi_test {
namespace {

using Random = std::mt19937;

int pick(Random& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

struct Ways {
  Precision precision = Precision::full;
  bool force_put = false;
  bool divides_channels = false;
};

std::unique_ptr<Space> make_space(const Blocks& blocks, const Ways& ways = {}) {
  TransportOptions options;
  options.force_put = ways.force_put;
  return std::make_unique<Space>(std::make_unique<GroupWindow>(Communicator(MPI_COMM_WORLD), options), blocks,
                                 ways.divides_channels);
}

/// All ways to cut three axes, of which an image has the last ones, into as many blocks as there are ranks.
std::vector<Blocks> ways_to_cut(int dimensions) {
  std::vector<Blocks> ways;
  const int ranks = all_ranks();
  for (int d = 1; d <= ranks; ++d) {
    for (int h = 1; d * h <= ranks; ++h) {
      if (ranks % (d * h) != 0) continue;
      const Blocks blocks{d, h, ranks / (d * h)};
      if ((dimensions < 3 && d > 1) || (dimensions < 2 && h > 1)) continue;
      ways.push_back(blocks);
    }
  }
  return ways;
}

/// A list of layers that grows at random, each fit for its input.
class RandomNetwork {
 public:
  RandomNetwork(Random& random, const Shape& input) : random_(random), input_(input), shape_(input) {}

  NetworkConfig grow(int layers, bool label_per_pixel, int classes) {
    for (int i = 0; i < layers; ++i) add_some_layer();
    if (label_per_pixel) {
      back_to_size();
      add("conv").channels = classes;
    } else {
      add("gelu");  // the mean of normalised values would be zero but for rounding
      if (pick(random_, 0, 1) == 0) add("global_avg_pool");
      add("flatten");
      add("dense").channels = 8;
      add("tanh").scale = 1.5;
      add("dense").channels = classes;
    }
    NetworkConfig config;
    config.name = "random";
    config.layers = layers_;
    return config;
  }

  [[nodiscard]] std::string text() const {
    std::ostringstream text;
    text << to_string(input_);
    for (const LayerConfig& layer : layers_) {
      text << ", " << layer.name << " " << layer.channels << " k" << listed(std::span(layer.kernel), "x") << " s"
           << listed(std::span(layer.stride), "x") << " p" << listed(std::span(layer.padding), "x") << " d"
           << listed(std::span(layer.dilation), "x") << " g" << layer.groups;
    }
    return text.str();
  }

 private:
  LayerConfig& add(const std::string& type) {
    LayerConfig layer;
    layer.type = type;
    layer.name = type + std::to_string(layers_.size());
    layers_.push_back(layer);
    return layers_.back();
  }
  [[nodiscard]] std::vector<int> axes(int least, int most) const {
    std::vector<int> numbers;
    for (int axis = 0; axis < shape_.dimensions; ++axis) numbers.push_back(pick(random_, least, most));
    return numbers;
  }
  void follow() {
    std::vector<Shape> inputs{shape_};
    const LayerConfig& layer = layers_.back();
    if (layer.type == "add" || layer.type == "concat") inputs.push_back(other_);
    shape_ = make_layer(layer, inputs)->output_shape();
  }
  void add_window(const std::string& type) {
    LayerConfig& layer = add(type);
    layer.kernel = axes(1, 3);
    layer.stride = axes(1, 2);
    layer.padding = axes(0, 1);
    if (type.find("pool") == std::string::npos) {
      layer.channels = 2 * pick(random_, 1, 4);
      layer.dilation = axes(1, 2);
      layer.groups = shape_.channels % 2 == 0 ? pick(random_, 1, 2) : 1;
      layer.bias = pick(random_, 0, 1) == 0;
    }
    if (type == "conv_transpose") {  // less than the stride or the dilation
      for (std::size_t axis = 0; axis < layer.stride.size(); ++axis) {
        layer.output_padding.resize(layer.stride.size());
        layer.output_padding[axis] = pick(random_, 0, std::max(layer.stride[axis], layer.dilation[axis]) - 1);
      }
    }
    for (std::size_t axis = 0; axis < layer.padding.size(); ++axis) {  // none in the padding alone
      if (layer.kernel[axis] == 1) layer.padding[axis] = 0;
    }
    const Shape before = shape_;
    try {
      follow();
      if (shape_.pixels() > 3000 || shape_.pixels() < 1) throw Error("not this size");
    } catch (const Error&) {
      layers_.pop_back();
      shape_ = before;
    }
  }
  void add_join() {
    // a branch of one more layer, joined with what was there before
    const std::string trunk = layers_.empty() ? "input" : layers_.back().name;
    other_ = shape_;
    LayerConfig& branch = add("conv");
    branch.channels = shape_.channels;
    branch.kernel.assign(static_cast<std::size_t>(shape_.dimensions), 3);
    branch.padding.assign(static_cast<std::size_t>(shape_.dimensions), 1);
    follow();
    if (pick(random_, 0, 1) == 0) {
      add("batch_norm");
      follow();
    }
    const std::string end = layers_.back().name;
    LayerConfig& join = add(pick(random_, 0, 1) == 0 ? "add" : "concat");
    join.inputs = {end, trunk};
    follow();
    if (pick(random_, 0, 1) == 0) {
      add("relu");
      follow();
    }
  }
  void add_some_layer() {
    static const char* const pixelwise[] = {"relu", "batch_norm", "layer_norm", "tanh",  "gelu",
                                            "silu", "dropout",    "sigmoid",    "relu6", "leaky_relu"};
    switch (pick(random_, 0, 9)) {
      case 0:
      case 1:
      case 2:
        add_window("conv");
        break;
      case 3:
        add_window("conv_transpose");
        break;
      case 4:
        add_window(pick(random_, 0, 1) == 0 ? "max_pool" : "avg_pool");
        break;
      case 5:
        if (shape_.pixels() < 500) {
          add("upsample").factor = axes(1, 2);
          follow();
        }
        break;
      case 6:
        add_join();
        break;
      case 7:
        if (shape_.channels % 2 == 0) {
          add("group_norm").groups = 2;
          follow();
        }
        break;
      case 8:
        if (shape_.channels > 1) {
          LayerConfig& layer = add("slice");
          layer.first = pick(random_, 0, shape_.channels - 2);
          layer.channels = pick(random_, 1, shape_.channels - layer.first);
          follow();
        }
        break;
      default:
        add(pixelwise[random_() % std::size(pixelwise)]);
        follow();
    }
  }
  /// Transposed convolutions and convolutions that end at the input's extents, as labels per pixel need.
  void back_to_size() {
    LayerConfig& layer = add("conv_transpose");
    layer.channels = 4;
    layer.kernel.clear();
    layer.stride.assign(static_cast<std::size_t>(shape_.dimensions), 1);
    layer.padding.clear();
    for (int axis = 3 - shape_.dimensions; axis < 3; ++axis) {
      const int grows = input_.extents()[axis] - shape_.extents()[axis];
      layer.kernel.push_back(grows >= 0 ? grows + 1 : 1);
      layer.padding.push_back(grows >= 0 ? 0 : (1 - grows) / 2);
      if (grows < 0 && grows % 2 != 0) layer.kernel.back() = 2;
    }
    follow();
  }

  Random& random_;
  Shape input_, shape_, other_;
  std::vector<LayerConfig> layers_;
};

struct Data {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;

  Data(Random& random, int count, const Shape& shape, const Target& target) : target_(target) {
    std::normal_distribution<float> normal;
    for (long i = 0; i < count * shape.values(); ++i) images.push_back(normal(random));
    const long rows = count * target.labels_per_image;
    for (long i = 0; i < rows && target.classes > 0; ++i) labels.push_back(pick(random, 0, target.classes - 1));
    for (long i = 0; i < rows * target.target_values; ++i) targets.push_back(normal(random));
  }
  [[nodiscard]] HostBatch batch(int size) const { return {size, images.data(), labels.data(), targets.data()}; }
  /// What a rank with this box is given.
  [[nodiscard]] Data part(int count, const Shape& shape, const Box& box) const {
    Data here = *this;
    here.images = cut(images, count, shape, box);
    if (target_.labels_per_image == 1) return here;
    if (!labels.empty()) here.labels = cut(labels, count, Shape(shape.extents(), 1, shape.dimensions), box);
    if (!targets.empty()) {
      here.targets = cut(targets, count, Shape(shape.extents(), target_.target_values, shape.dimensions), box);
    }
    return here;
  }

 private:
  template <class T>
  static std::vector<T> cut(const std::vector<T>& all, int count, const Shape& shape, const Box& box) {
    std::vector<T> result;
    for (int n = 0; n < count; ++n) {
      for (int d = box.begin[0]; d < box.end[0]; ++d) {
        for (int h = box.begin[1]; h < box.end[1]; ++h) {
          const long row = ((static_cast<long>(n) * shape.depth + d) * shape.height + h) * shape.width;
          result.insert(result.end(), all.begin() + (row + box.begin[2]) * shape.channels,
                        all.begin() + (row + box.end[2]) * shape.channels);
        }
      }
    }
    return result;
  }

  Target target_;
};

double norm(std::span<const float> values) {
  double squares = 1e-30;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// ||a - b|| over ||b||, or over `least` where that is more
double distance(std::span<const float> a, std::span<const float> b, double least = 0) {
  double squares = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double apart = static_cast<double>(a[i]) - b[i];
    squares += apart * apart;
  }
  return std::sqrt(squares) / std::max(norm(b), least);
}

struct Training {
  std::vector<LossSum> steps;
  LossSum evaluated;
  std::vector<float> gradients, statistics;
};

Training train(Network& network, const HostBatch& batch) {
  Training training;
  const Replica replica = network.make_replica(5);
  const ExecutionSpace exec;
  for (int step = 0; step < 2; ++step) {  // the second one finds used messages
    training.steps.push_back(network.train(exec, replica, batch, 7));
  }
  if (network.space() != nullptr) network.space()->gather(exec, replica.gradients);
  training.gradients = to_host(replica.gradients);
  training.statistics = to_host(replica.statistics);
  training.evaluated = network.evaluate(exec, replica, batch);
  return training;
}

double distance(const LossSum& a, const LossSum& b) {
  return std::abs(a.loss - b.loss) / (1 + std::abs(b.loss));
}

/// To rounding: apart by no more than a few times what other last digits of the images change.
void expect_same_training(const NetworkConfig& config, const Shape& input, const Target& target, const Blocks& blocks,
                          unsigned seed, const Ways& ways = {}) {
  Random random(seed);
  const int batch = seed % 2 == 0 ? 3 : 1;  // a single image's own pixels may lie in their halo
  Data data(random, batch, input, target);
  Network alone(config, input, target, batch, ways.precision);
  const Training expected = train(alone, data.batch(batch));
  Network divided(config, input, target, batch, ways.precision, true, make_space(blocks, ways));
  const Data part = data.part(batch, input, divided.image_box());
  const Training found = train(divided, part.batch(batch));
  const float rounding = stores_bf16(ways.precision) ? 0x1p-9F : 0x1p-22F;
  for (float& value : data.images) value *= 1 + rounding * (random() % 2 == 0 ? 1 : -1);
  const Training other = train(alone, data.batch(batch));
  const auto near = [&](const auto& mine, const auto& right, const auto& perturbed) {
    return distance(mine, right) <= 10 * distance(perturbed, right) + 20 * static_cast<double>(rounding);
  };
  for (std::size_t step = 0; step < expected.steps.size(); ++step) {
    EXPECT_TRUE(near(found.steps[step], expected.steps[step], other.steps[step]))
        << found.steps[step].loss << " instead of " << expected.steps[step].loss;
  }
  EXPECT_TRUE(near(found.evaluated, expected.evaluated, other.evaluated))
      << found.evaluated.loss << " instead of " << expected.evaluated.loss;
  EXPECT_TRUE(near(found.statistics, expected.statistics, other.statistics));
  const double least = 0.01 * norm(expected.gradients);  // some are zero to rounding: those before a norm, for one
  for (const NamedTensor& tensor : alone.parameters()) {
    const auto of = [&](const Training& training) {
      return std::span(training.gradients).subspan(tensor.offset, tensor.size());
    };
    const double apart = distance(of(found), of(expected), least), perturbed = distance(of(other), of(expected), least);
    ASSERT_LE(apart, 10 * perturbed + 20 * static_cast<double>(rounding)) << tensor.layer << "/" << tensor.name;
  }
}

/// Real numbers, so many of each image or of each of its pixels.
Target numbers_of(int values, long labels_per_image = 1) {
  LossConfig loss;
  loss.name = "mean_squared_error";
  Target target(0, labels_per_image, loss);
  target.target_values = values;
  return target;
}

/// Networks differ from one number of ranks to another.
constexpr unsigned networks = 16;

TEST(Space, RandomNetworksTrainAsOnOneRank) {
  for (unsigned number = 0; number < networks; ++number) {
    const unsigned seed = networks * static_cast<unsigned>(all_ranks()) + number;
    Random random(seed);
    const int dimensions = pick(random, 1, 3);
    Shape input(std::array<int, 3>{1, 1, 1}, pick(random, 1, 3), dimensions);
    int* const extents[] = {&input.depth, &input.height, &input.width};
    for (int axis = 3 - dimensions; axis < 3; ++axis) *extents[axis] = pick(random, 5, dimensions == 3 ? 9 : 16);
    const bool label_per_pixel = pick(random, 0, 1) == 0;
    RandomNetwork network(random, input);
    const NetworkConfig config = network.grow(pick(random, 2, 7), label_per_pixel, 3);
    Target target = numbers_of(3, label_per_pixel ? input.pixels() : 1);
    if (pick(random, 0, 2) > 0) {
      target = Target(3, target.labels_per_image);
      target.loss.label_smoothing = pick(random, 0, 1) == 0 ? 0 : 0.1;
    }
    const std::vector<Blocks> ways = ways_to_cut(dimensions);
    const Blocks blocks = ways[random() % ways.size()];
    Ways how;
    how.divides_channels = pick(random, 0, 1) == 0;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + network.text() + ", in " + listed(std::span(blocks), "x") +
                 " blocks" + (how.divides_channels ? ", channels divided" : ""));
    expect_same_training(config, input, target, blocks, seed, how);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// No window reads the last rectified pixels, so that one rank reads all of its own pixels and another one does not.
TEST(Space, WindowsThatLeaveTheLastPixelsOut) {
  for (const char* type : {"conv", "max_pool"}) {
    NetworkConfig config;
    config.name = type;
    const auto add = [&](const char* of, int channels) -> LayerConfig& {
      LayerConfig layer;
      layer.type = of;
      layer.name = of + std::to_string(config.layers.size());
      layer.channels = channels;
      return config.layers.emplace_back(layer);
    };
    LayerConfig& first = add("conv", 4);
    first.kernel = {3};
    first.padding = {1};
    add("relu", 0);
    LayerConfig& window = add(type, 4);
    window.kernel = {3};
    window.stride = {2};
    add("global_avg_pool", 0);
    add("dense", 3);
    for (const Blocks& blocks : ways_to_cut(2)) {
      SCOPED_TRACE(std::string(type) + ", in " + listed(std::span(blocks), "x") + " blocks");
      for (const unsigned seed : {2U, 3U}) expect_same_training(config, Shape(12, 12, 2), Target(3, 1), blocks, seed);
    }
  }
}

/// A reference network without kinks, at which rounding decides: of a hundred thousand rectified values some are zero
/// to their last digits. The random networks, with fewer values, have them.
NetworkConfig reference(const std::string& name, int outputs = 1) {
  NetworkConfig config;
  config.name = name;
  config = expand_network(config, outputs);
  config.name = "smooth";
  for (LayerConfig& layer : config.layers) {
    if (layer.type == "relu" || layer.type == "relu6" || layer.type == "leaky_relu") layer.type = "silu";
    if (layer.type == "max_pool") layer.type = "avg_pool";
  }
  return config;
}

Target pixels_of(const Shape& input) {
  LossConfig loss;
  loss.name = "binary_cross_entropy";
  return {2, input.pixels(), loss};
}

TEST(Space, ReferenceNetworksTrainAsOnOneRank) {
  const Shape image(24, 32, 3), gray(32, 32, 1), volume(9, 8, 10, 1);
  const Blocks blocks = ways_to_cut(2).back(), columns = ways_to_cut(2).front();
  expect_same_training(reference("resnet20", 10), image, Target(10), blocks, 2);
  if (all_ranks() <= 4) expect_same_training(reference("mobilenet_v2", 10), Shape(64, 64, 3), Target(10), columns, 2);
  expect_same_training(reference("unet2d"), gray, pixels_of(gray), blocks, 4);
  expect_same_training(reference("unet2d"), gray, pixels_of(gray), {1, all_ranks(), 1}, 3);
  expect_same_training(reference("ffn3d"), volume, pixels_of(volume), ways_to_cut(3).back(), 4);
  const Shape with_mask(9, 8, 10, 2), universe(32, 32, 32, 4);
  expect_same_training(reference("ffn"), with_mask, pixels_of(with_mask), ways_to_cut(3).front(), 3);
  expect_same_training(reference("cosmoflow", 4), universe, numbers_of(4), ways_to_cut(3).back(), 3);
}

TEST(Space, ValuesAsPutsBetweenNodes) {
  const Shape gray(32, 32, 1);
  expect_same_training(reference("unet2d"), gray, pixels_of(gray), ways_to_cut(2).front(), 5, {.force_put = true});
}

// What is rounded to bf16 on the way may be rounded otherwise where it was added up otherwise.
TEST(Space, ValuesInBfloat16) {
  if (!computes_in(Precision::bf16)) GTEST_SKIP() << "this device does not compute in bf16";
  const Shape gray(32, 32, 1);
  expect_same_training(reference("unet2d"), gray, pixels_of(gray), ways_to_cut(2).front(), 6,
                       {.precision = Precision::bf16});
}

/// Dense layers and 1x1 convolutions: with and without bias and a fused ReLU, with a stride, beside others that read
/// the same value and give it a gradient first or last, and one with fewer channels than there may be ranks.
NetworkConfig products() {
  const auto layer = [](const char* type, const char* name, int channels, std::vector<std::string> inputs = {}) {
    LayerConfig config;
    config.type = type;
    config.name = name;
    config.channels = channels;
    config.inputs = std::move(inputs);
    return config;
  };
  NetworkConfig config;
  config.name = "products";
  config.layers = {layer("conv", "few", 17),       layer("relu", "first", 0),
                   layer("conv", "wide", 17),      layer("add", "sum", 0, {"wide", "first"}),
                   layer("batch_norm", "norm", 0), layer("gelu", "smooth", 0),
                   layer("conv", "halved", 20),    layer("flatten", "flat", 0),
                   layer("dense", "hidden", 33),   layer("relu", "positive", 0),
                   layer("dense", "again", 33),    layer("add", "both", 0, {"again", "positive"}),
                   layer("dense", "classes", 5)};
  config.layers[2].bias = false;
  config.layers[6].stride = {2};
  for (LayerConfig& conv : config.layers) {
    if (conv.type == "conv") conv.kernel = {1};
  }
  return config;
}

TEST(Space, ChannelsAreDivided) {
  const Shape image(5, 4, 3);
  for (const unsigned seed : {2U, 3U}) {  // of three images, of one
    expect_same_training(products(), image, Target(5), {1, 1, 1}, seed, {.divides_channels = true});
  }
  expect_same_training(products(), image, Target(5), {1, 1, 1}, 2, {.force_put = true, .divides_channels = true});
  if (computes_in(Precision::bf16)) {
    expect_same_training(products(), image, Target(5), {1, 1, 1}, 2,
                         {.precision = Precision::bf16, .divides_channels = true});
  }
}

// The outputs are more numbers than the group adds up at a time.
TEST(Space, ChannelsOfLargeImagesAreDivided) {
  const Shape image(96, 96, 8);
  NetworkConfig config = products();
  config.layers = {config.layers[0], config.layers[4], config.layers[5], config.layers[7], config.layers[12]};
  config.layers[3].type = "global_avg_pool";
  expect_same_training(config, image, Target(5), {1, 1, 1}, 2, {.divides_channels = true});
}

TEST(Space, ARankMultipliesItsChannels) {
  Network network(products(), Shape(5, 4, 3), Target(5), 3, Precision::full, true,
                  make_space({1, 1, 1}, {.divides_channels = true}));
  const Network alone(products(), Shape(5, 4, 3), Target(5), 3);
  double flops[] = {network.forward_flops()};
  network.space()->add(std::span<double>(flops));
  const double few = 2.0 * 20 * 3 * 17;  // of the first layer, whose 3 channels are no more than these ranks can divide
  EXPECT_DOUBLE_EQ(flops[0], alone.forward_flops() + (all_ranks() > 3 ? (all_ranks() - 1) * few : 0));
}

// Cuts follow those of the input, so that what needs no edges exchanges none.
TEST(Space, CutsFollowTheInput) {
  if (all_ranks() != 2) GTEST_SKIP() << "for 2 ranks";
  const std::unique_ptr<Space> space = make_space({1, 1, 2});
  const Shape odd(7, 1), twice(14, 1), half(3, 1), one(1, 4);
  const Division division = space->evenly(odd);
  EXPECT_EQ(division.cuts[2], (std::vector<int>{0, 3, 7}));
  EXPECT_EQ(space->following(division, odd, twice).cuts[2], (std::vector<int>{0, 6, 14}));
  EXPECT_EQ(space->following(space->following(division, odd, twice), twice, odd).cuts[2], division.cuts[2]);
  EXPECT_EQ(space->following(division, odd, half).cuts[2], (std::vector<int>{0, 1, 3}));
  EXPECT_FALSE(space->following(division, odd, one).divided());
  EXPECT_EQ(space->box_of(space->evenly(one), one, 1), Box::whole(one));
}

/// A rank alone sends as much as in its group: edges, statistics, products, gradients and weights.
TEST(Space, ARankWithoutTheOthersSendsAsMuch) {
  const Shape gray(32, 32, 1);
  const auto expect_same_traffic = [&](const NetworkConfig& config, const Shape& input, const Target& target,
                                       const Blocks& blocks, bool divides_channels) {
    Random random(1);
    const Data data(random, 2, input, target);
    const auto traffic = [&](std::unique_ptr<Space> space) {
      Network network(config, input, target, 2, Precision::full, true, std::move(space));
      const Data part = data.part(2, input, network.image_box());
      const Replica replica = network.make_replica(1);
      network.train(ExecutionSpace(), replica, part.batch(2), 1);
      network.space()->gather(ExecutionSpace(), replica.parameters);
      const GroupWindow& window = network.space()->window();
      return std::pair(window.exchanges(), window.bytes_sent());
    };
    EXPECT_EQ(traffic(std::make_unique<Space>(std::make_unique<GroupWindow>(this_rank(), all_ranks()), blocks,
                                              divides_channels)),
              traffic(make_space(blocks, {.divides_channels = divides_channels})));
  };
  for (const Blocks& blocks : ways_to_cut(2)) {
    expect_same_traffic(reference("unet2d"), gray, pixels_of(gray), blocks, false);
  }
  expect_same_traffic(products(), Shape(5, 4, 3), Target(5), {1, 1, 1}, true);
}

TEST(Space, OtherNumbersOfBlocksAreRefused) {
  EXPECT_THROW(make_space({1, 1, all_ranks() + 1}), Error);
}

}  // namespace
}  // namespace halograd::space_mpi_test
