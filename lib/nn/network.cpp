#include "nn/network.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "nn/initialise.hpp"
#include "nn/plan.hpp"

namespace halograd {

std::size_t TensorInfo::size() const {
  std::size_t product = 1;
  for (const long extent : extents) product *= static_cast<std::size_t>(extent);
  return product;
}

struct Network::Node {
  LayerConfig config;
  std::unique_ptr<Layer> layer;
  Shape shape;
  std::vector<int> inputs;           ///< values
  std::vector<bool> first_consumer;  ///< whether this node writes an input's gradient first, going backwards
  int first_parameter = 0, first_statistic = 0;
  std::size_t saved_offset = 0;
  LayerNeeds needs;
  LayerCall call;  ///< its lists are sized once, so that a step allocates nothing
};

namespace {

/// Throws Error where a network's outputs cannot be compared with the labels.
void require_outputs(const std::string& network, const std::string& layer, const Shape& outputs, const Shape& input,
                     int classes, const LossConfig& loss, long labels_per_image) {
  HALOGRAD_REQUIRE(labels_per_image == 1 || labels_per_image == input.pixels(), "network '", network,
                   "': the data have ", labels_per_image, " labels for an image of ", to_string(input));
  HALOGRAD_REQUIRE(loss.name != "binary_cross_entropy" || classes == 2,
                   "loss.name: binary_cross_entropy is of labels 0 and 1, but the data have ", classes, " classes");
  const bool one = loss.name == "binary_cross_entropy" || (loss.name == "mean_squared_error" && outputs.channels == 1);
  const bool a_pixel = labels_per_image > 1;
  const Shape expected(a_pixel ? input.extents() : std::array<int, 3>{1, 1, 1}, one ? 1 : classes, outputs.dimensions);
  HALOGRAD_REQUIRE(outputs.extents() == expected.extents() && outputs.channels == expected.channels, "network '",
                   network, "': the last layer, ", layer, ", has outputs of shape ", to_string(outputs),
                   ", but the data have ", classes, " classes", a_pixel ? " and a label a pixel" : "", " (",
                   to_string(expected), " expected", one ? " by " + loss.name : "", ")");
}

}  // namespace

Network::Network(const NetworkConfig& config, const Shape& input, int classes, int largest_batch,
                 const LossConfig& loss, long labels_per_image)
    : classes_(classes),
      largest_batch_(largest_batch),
      loss_(loss),
      labels_per_image_(labels_per_image),
      input_shape_(input) {
  HALOGRAD_REQUIRE(!config.layers.empty(), "network '", config.name, "' has no layers");
  build_nodes(config, input);
  const Node& last = *nodes_.back();
  require_outputs(config.name, last.config.name, last.shape, input, classes, loss, labels_per_image);
  place_buffers();
  labels_ = Buffer<std::int32_t>("halograd::labels", static_cast<std::size_t>(largest_batch * labels_per_image));
}

Network::~Network() = default;

void Network::build_nodes(const NetworkConfig& config, const Shape& input) {
  std::map<std::string, int> value_of{{"input", 0}};
  std::vector<Shape> shapes{input};
  for (const LayerConfig& layer_config : config.layers) {
    auto node = std::make_unique<Node>();
    node->config = layer_config;
    if (layer_config.inputs.empty()) {
      node->inputs.push_back(static_cast<int>(shapes.size()) - 1);
    }
    for (const std::string& name : layer_config.inputs) {
      const auto found = value_of.find(name);
      HALOGRAD_REQUIRE(found != value_of.end(), "layer ", layer_config.name, ": its input '", name,
                       "' is no earlier layer");
      node->inputs.push_back(found->second);
    }
    std::vector<Shape> input_shapes;
    for (const int value : node->inputs) input_shapes.push_back(shapes[value]);
    node->layer = make_layer(layer_config, input_shapes);
    node->shape = node->layer->output_shape();
    node->needs = node->layer->needs(largest_batch_);
    node->first_parameter = static_cast<int>(parameters_.size());
    node->first_statistic = static_cast<int>(statistics_.size());
    const auto append = [&](const std::vector<TensorSpec>& specs, std::vector<TensorInfo>& tensors,
                            std::vector<TensorSpec>& kept, std::size_t& count) {
      for (const TensorSpec& spec : specs) {
        tensors.push_back({layer_config.name, spec.name, spec.extents, count});
        kept.push_back(spec);
        count += tensors.back().size();
      }
    };
    append(node->layer->parameters(), parameters_, parameter_specs_, parameter_count_);
    append(node->layer->statistics(), statistics_, statistic_specs_, statistic_count_);
    HALOGRAD_REQUIRE(value_of.emplace(layer_config.name, static_cast<int>(shapes.size())).second, "layer ",
                     layer_config.name, ": this name stands twice");
    shapes.push_back(node->shape);
    nodes_.push_back(std::move(node));
  }
}

void Network::place_buffers() {
  const int count = static_cast<int>(nodes_.size());
  const int values = count + 1;
  const auto backward_time = [&](int node) { return 2 * count - node; };
  std::vector<std::vector<int>> consumers(values);
  for (int i = 0; i < count; ++i) {
    for (const int value : nodes_[i]->inputs) consumers[value].push_back(i);
  }
  for (int i = 0; i + 1 < count; ++i) {
    HALOGRAD_REQUIRE(!consumers[i + 1].empty(), "layer ", nodes_[i]->config.name, ": no layer takes its output");
  }

  // Buffers 0 .. values-1 are the values, then their gradients, then what layers save from forward to backward.
  std::vector<Lifetime> buffers(static_cast<std::size_t>(2 * values + count));
  std::vector<int> place(values);  // the value whose place a value shares
  const auto bytes = [&](int value) {
    const Shape& shape = value == 0 ? input_shape_ : nodes_[value - 1]->shape;
    return static_cast<std::size_t>(shape.values() * largest_batch_) * sizeof(float);
  };
  for (int value = 0; value < values; ++value) {
    const int producer = value - 1;
    place[value] = value;
    Lifetime life{bytes(value), producer, value == count ? count : producer};
    Lifetime gradient_life{value == 0 ? 0 : bytes(value), count, backward_time(producer)};
    for (const int node : consumers[value]) {
      life.death = std::max(life.death, nodes_[node]->needs.backward_reads_input ? backward_time(node) : node);
    }
    if (value != count && !consumers[value].empty()) gradient_life.birth = backward_time(consumers[value].back());
    if (producer >= 0) {
      const Node& node = *nodes_[producer];
      if (node.needs.backward_reads_output) life.death = std::max(life.death, backward_time(producer));
      const int from = node.inputs[0];
      const bool share = node.needs.in_place && from != 0 && consumers[from].size() == 1 &&
                         !nodes_[from - 1]->needs.backward_reads_output && bytes(from) == bytes(value);
      if (share) {
        const int root = place[value] = place[from];
        buffers[root].death = std::max(buffers[root].death, life.death);
        buffers[values + root].birth = std::min(buffers[values + root].birth, gradient_life.birth);
        continue;
      }
    }
    buffers[value] = life;
    buffers[values + value] = gradient_life;
  }
  for (int i = 0; i < count; ++i) {
    buffers[2 * values + i] = {nodes_[i]->needs.saved_bytes, i, backward_time(i)};
  }
  std::size_t workspace_bytes = 0;
  for (const auto& node : nodes_) workspace_bytes = std::max(workspace_bytes, node->needs.workspace_bytes);

  const ArenaPlan plan = plan_arena(buffers);
  arena_ = Buffer<std::byte>("halograd::arena", plan.bytes + workspace_bytes);
  workspace_ = slice(arena_, plan.bytes, workspace_bytes);
  value_offset_.resize(values);
  gradient_offset_.resize(values);
  for (int value = 0; value < values; ++value) {
    value_offset_[value] = plan.offsets[place[value]];
    gradient_offset_[value] = plan.offsets[values + place[value]];
  }

  std::vector<bool> seen(values, false);
  for (int i = count - 1; i >= 0; --i) {
    Node& node = *nodes_[i];
    node.saved_offset = plan.offsets[2 * values + i];
    for (const int value : node.inputs) {
      node.first_consumer.push_back(!seen[value]);
      seen[value] = true;
    }
    const std::size_t parameters = node.layer->parameters().size();
    node.call.inputs.resize(node.inputs.size());
    node.call.input_gradients.resize(node.inputs.size());
    node.call.accumulate.resize(node.inputs.size());
    node.call.parameters.resize(parameters);
    node.call.parameter_gradients.resize(parameters);
    node.call.statistics.resize(node.layer->statistics().size());
    node.call.saved = slice(arena_, node.saved_offset, node.needs.saved_bytes);
    node.call.workspace = workspace_;
  }
}

Vector<float> Network::value(int index, int batch) const {
  const Shape& shape = index == 0 ? input_shape_ : nodes_[index - 1]->shape;
  return values_at<float>(arena_, value_offset_[index], static_cast<std::size_t>(shape.values() * batch));
}

Vector<float> Network::gradient(int index, int batch) const {
  if (index == 0) return {};
  return values_at<float>(arena_, gradient_offset_[index],
                          static_cast<std::size_t>(nodes_[index - 1]->shape.values() * batch));
}

double Network::forward_flops() const {
  double sum = 0;
  for (const auto& node : nodes_) sum += node->layer->forward_flops();
  return sum;
}

std::string Network::describe() const {
  std::ostringstream out;
  for (const auto& node : nodes_) {
    std::size_t parameters = 0;
    for (const TensorInfo& tensor : parameters_) parameters += tensor.layer == node->config.name ? tensor.size() : 0;
    out << std::left << std::setw(28) << node->config.name << std::setw(16) << node->config.type << std::setw(14)
        << to_string(node->shape) << std::right << std::setw(10) << parameters << '\n';
  }
  return out.str();
}

Replica Network::make_replica(std::uint64_t seed) const {
  Replica replica{Buffer<float>("halograd::parameters", parameter_count_),
                  Buffer<float>("halograd::gradients", parameter_count_),
                  Buffer<float>("halograd::statistics", statistic_count_)};
  const auto fill = [&](const std::vector<TensorInfo>& tensors, const std::vector<TensorSpec>& specs,
                        const Buffer<float>& to) {
    const auto host = Kokkos::create_mirror_view(to);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      initialise(specs[i].initial, tensor_key(seed, tensors[i].layer, tensors[i].name), host.data() + tensors[i].offset,
                 tensors[i].size());
    }
    Kokkos::deep_copy(to, host);
  };
  fill(parameters_, parameter_specs_, replica.parameters);
  fill(statistics_, statistic_specs_, replica.statistics);
  return replica;
}

void Network::load(const ExecutionSpace& exec, const HostBatch& batch) {
  HALOGRAD_REQUIRE(batch.size >= 1 && batch.size <= largest_batch_, "a batch of ", batch.size,
                   " images for a network built for 1 to ", largest_batch_);
  const Vector<float> images = value(0, batch.size);
  Kokkos::deep_copy(exec, images, HostVector<const float>(batch.images, images.size()));
  const auto size = static_cast<std::size_t>(batch.size * labels_per_image_);
  Kokkos::deep_copy(exec, slice(labels_, 0, size), HostVector<const std::int32_t>(batch.labels, size));
}

void Network::forward(const ExecutionSpace& exec, const Replica& replica, int batch, bool training,
                      std::uint64_t random_key) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    LayerCall& call = node.call;
    call.batch = batch;
    call.training = training;
    call.random_key = random_bits(random_key, i);
    for (std::size_t j = 0; j < node.inputs.size(); ++j) call.inputs[j] = value(node.inputs[j], batch);
    call.output = value(static_cast<int>(i) + 1, batch);
    for (std::size_t j = 0; j < call.parameters.size(); ++j) {
      const TensorInfo& tensor = parameters_[node.first_parameter + j];
      call.parameters[j] = slice(replica.parameters, tensor.offset, tensor.size());
    }
    for (std::size_t j = 0; j < call.statistics.size(); ++j) {
      const TensorInfo& tensor = statistics_[node.first_statistic + j];
      call.statistics[j] = slice(replica.statistics, tensor.offset, tensor.size());
    }
    node.layer->forward(exec, call);
  }
}

void Network::backward(const ExecutionSpace& exec, const Replica& replica, int batch) {
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = *nodes_[i];
    LayerCall& call = node.call;
    call.output_gradient = gradient(static_cast<int>(i) + 1, batch);
    for (std::size_t j = 0; j < node.inputs.size(); ++j) {
      call.input_gradients[j] = gradient(node.inputs[j], batch);
      call.accumulate[j] = !node.first_consumer[j];
    }
    for (std::size_t j = 0; j < call.parameter_gradients.size(); ++j) {
      const TensorInfo& tensor = parameters_[node.first_parameter + j];
      call.parameter_gradients[j] = slice(replica.gradients, tensor.offset, tensor.size());
    }
    node.layer->backward(exec, call);
  }
}

LossSum Network::train(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                       std::uint64_t random_key) {
  load(exec, batch);
  forward(exec, replica, batch.size, true, random_key);
  const LossSum sum = loss(exec, batch.size, true);
  backward(exec, replica, batch.size);
  exec.fence();
  return sum;
}

LossSum Network::evaluate(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch) {
  load(exec, batch);
  forward(exec, replica, batch.size, false, 0);
  return loss(exec, batch.size, false);
}

LossSum Network::loss(const ExecutionSpace& exec, int batch, bool with_gradient) {
  const int last = static_cast<int>(nodes_.size());
  const long rows = batch * labels_per_image_;
  const double scale = 1.0 / static_cast<double>(rows);
  const Vector<const float> outputs = value(last, batch);
  const Vector<float> to = with_gradient ? gradient(last, batch) : Vector<float>();
  const int width = nodes_.back()->shape.channels;
  LossSum sum;
  if (loss_.name == "binary_cross_entropy") {
    sum = binary_cross_entropy<float>(exec, rows, outputs, labels_, scale, to);
  } else if (loss_.name == "mean_squared_error") {
    sum = mean_squared_error<float>(exec, rows, width, outputs, labels_, scale, to);
  } else {
    sum = softmax_cross_entropy<float>(exec, rows, width, outputs, labels_, scale, to, loss_.label_smoothing);
  }
  sum.loss /= static_cast<double>(labels_per_image_);
  return sum;
}

}  // namespace halograd
