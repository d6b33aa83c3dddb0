#include "nn/network.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "kernels/region.hpp"
#include "nn/initialise.hpp"
#include "nn/network_node.hpp"

namespace halograd {

Network::Network(const NetworkConfig& config, const Shape& input, const Target& target, int largest_batch, bool fused)
    : target_(target), largest_batch_(largest_batch), input_shape_(input), batches_(input, target, largest_batch) {
  HALOGRAD_REQUIRE(!config.layers.empty(), "network '", config.name, "' has no layers");
  build_nodes(config, input, fused);
  const Node& last = *nodes_.back();
  require_outputs(config.name, last.config.output, last.shape, input, target);
  place_buffers();
}

Network::~Network() = default;

void Network::compute_in(Precision precision) {
  HALOGRAD_REQUIRE(computes_in(precision), "training.precision = ",
                   precision == Precision::tf32 ? "\"tf32\" needs an NVIDIA device"
                                                : "\"bf16\" needs an NVIDIA device or an AMD Instinct from MI100 on",
                   ": expected \"fp32\" on ", ExecutionSpace::name());
  for (const auto& node : nodes_) node->call.precision = precision;
  steps_.clear();
}

void Network::replay_steps(bool on) {
  const bool random = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->needs.random; });
  replays_steps_ = on && !runs_on_host && !random && steps_.refusal().empty();
}

void Network::build_nodes(const NetworkConfig& config, const Shape& input, bool fused) {
  std::vector<Shape> shapes{input};
  for (const NodeConfig& node_config : make_nodes(config.layers, fused)) {
    const LayerConfig& layer_config = node_config.layer;
    auto node = std::make_unique<Node>();
    node->config = node_config;
    std::vector<Shape> input_shapes;
    for (const int value : node_config.inputs) input_shapes.push_back(shapes[value]);
    node->layer = make_layer(layer_config, input_shapes, node_config.epilogue);
    node->shape = node->layer->output_shape();
    node->needs = node->layer->needs(largest_batch_);
    node->first_parameter = static_cast<int>(parameters_.size());
    node->first_statistic = static_cast<int>(statistics_.size());
    const auto append = [&](const std::vector<TensorSpec>& specs, std::vector<NamedTensor>& tensors,
                            std::vector<TensorSpec>& kept, std::size_t& count) {
      for (const TensorSpec& spec : specs) {
        tensors.push_back({layer_config.name, spec.name, spec.extents, count});
        kept.push_back(spec);
        count += tensors.back().size();
      }
    };
    append(node->layer->parameters(), parameters_, parameter_specs_, parameter_count_);
    append(node->layer->statistics(), statistics_, statistic_specs_, statistic_count_);
    shapes.push_back(node->shape);
    nodes_.push_back(std::move(node));
  }
}

Vector<float> Network::value(int index, int batch) const {
  return values_at<float>(arena_, value_offset_[index],
                          static_cast<std::size_t>(nodes_[index - 1]->shape.values() * batch));
}

Vector<float> Network::gradient(int index, int batch) const {
  if (index == 0) return {};
  return values_at<float>(arena_, gradient_offset_[index],
                          static_cast<std::size_t>(nodes_[index - 1]->shape.values() * batch));
}

Replica Network::make_replica(std::uint64_t seed) const {
  Replica replica{Buffer<float>("halograd::parameters", parameter_count_),
                  Buffer<float>("halograd::gradients", parameter_count_),
                  Buffer<float>("halograd::statistics", statistic_count_)};
  const auto fill = [&](const std::vector<NamedTensor>& tensors, const std::vector<TensorSpec>& specs,
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
  const Region region("load");
  batch_ = batches_.load(exec, batch);
}

void Network::forward(const ExecutionSpace& exec, const Replica& replica, int batch, bool training,
                      std::uint64_t random_key) {
  const Region whole("forward");
  for (std::size_t i = 0; i < nodes_.size(); ++i) forward_node(exec, replica, i, batch, training, random_key);
}

void Network::forward_node(const ExecutionSpace& exec, const Replica& replica, std::size_t i, int batch, bool training,
                           std::uint64_t random_key) {
  Node& node = *nodes_[i];
  LayerCall& call = node.call;
  call.batch = batch;
  call.training = training;
  call.random_key = random_bits(random_key, static_cast<std::uint64_t>(node.config.index));
  for (std::size_t j = 0; j < node.config.inputs.size(); ++j) {
    call.inputs[j] =
        node.config.inputs[j] == 0 ? batch_.images : Vector<const float>(value(node.config.inputs[j], batch));
  }
  call.output = value(static_cast<int>(i) + 1, batch);
  for (std::size_t j = 0; j < call.parameters.size(); ++j) {
    const NamedTensor& tensor = parameters_[node.first_parameter + j];
    call.parameters[j] = slice(replica.parameters, tensor.offset, tensor.size());
  }
  for (std::size_t j = 0; j < call.statistics.size(); ++j) {
    const NamedTensor& tensor = statistics_[node.first_statistic + j];
    call.statistics[j] = slice(replica.statistics, tensor.offset, tensor.size());
  }
  const Region region(node.config.layer.name);
  node.layer->forward(exec, call);
}

void Network::backward(const ExecutionSpace& exec, const Replica& replica, int batch, const GradientReady& ready) {
  const Region whole("backward");
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = *nodes_[i];
    LayerCall& call = node.call;
    call.output_gradient = gradient(static_cast<int>(i) + 1, batch);
    for (std::size_t j = 0; j < node.config.inputs.size(); ++j) {
      call.input_gradients[j] = gradient(node.config.inputs[j], batch);
      call.accumulate[j] = !node.first_consumer[j];
    }
    for (std::size_t j = 0; j < call.parameter_gradients.size(); ++j) {
      const NamedTensor& tensor = parameters_[node.first_parameter + j];
      call.parameter_gradients[j] = slice(replica.gradients, tensor.offset, tensor.size());
    }
    const Region region(node.config.layer.name);
    if (node.mask_gradient) {
      const Vector<float> masked = gradient(static_cast<int>(i) + 1, batch);
      relu_backward<float>(exec, call.output, masked, masked, false);
    }
    node.layer->backward(exec, call);
    // Parameters lie in the order of the nodes, so what is complete is a tail of the buffer.
    if (ready && !call.parameter_gradients.empty()) ready(parameters_[node.first_parameter].offset);
  }
}

LossSum Network::train(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                       std::uint64_t random_key, const GradientReady& ready, const HostBatch& next) {
  load(exec, batch);
  const auto launch = [&](const ExecutionSpace& on) {
    forward(on, replica, batch.size, true, random_key);
    loss(on, batch.size, gradient(static_cast<int>(nodes_.size()), batch.size));
    backward(on, replica, batch.size, ready);
  };
  if (replays_steps_ && !ready) {
    steps_.run(exec,
               {batch.size,
                {batch_.images.data(), replica.parameters.data(), replica.gradients.data(), replica.statistics.data()}},
               launch);
  } else {
    launch(exec);
  }
  batches_.prefetch(next);
  return read_loss(exec, target_, loss_);
}

LossSum Network::evaluate(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                          const HostBatch& next) {
  load(exec, batch);
  forward(exec, replica, batch.size, false, 0);
  loss(exec, batch.size, {});
  batches_.prefetch(next);
  return read_loss(exec, target_, loss_);
}

void Network::loss(const ExecutionSpace& exec, int batch, const Vector<float>& gradient) {
  const Region region("loss");
  const int last = static_cast<int>(nodes_.size());
  start_loss(exec, target_, batch, nodes_.back()->shape.channels, value(last, batch), batch_.labels, batch_.targets,
             gradient, loss_);
}

}  // namespace halograd
