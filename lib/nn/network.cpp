#include "nn/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "kernels/elementwise.hpp"
#include "kernels/error.hpp"
#include "kernels/finite.hpp"
#include "kernels/random.hpp"
#include "kernels/region.hpp"
#include "nn/initialise.hpp"
#include "nn/layer_inputs.hpp"
#include "nn/precisions.hpp"
#include "nn/reference_networks.hpp"
#include "support/memory.hpp"
#include "window/group_window.hpp"

namespace halograd {

namespace {

/// What automatic means here. Throws Error where this build's devices do not compute so.
Precision possible(Precision precision) {
  if (!computes_in(precision)) {
    for (const PrecisionName& row : precisions()) {
      HALOGRAD_REQUIRE(*row.precision != precision, "training.precision = \"", row.name, "\" needs ", row.needs,
                       ": expected \"", precisions().front().name, "\" on ", ExecutionSpace::name());
    }
  }
  return resolved(precision);
}

}  // namespace

Network::Network(const NetworkConfig& config, const Shape& input, const Target& target, int largest_batch,
                 Precision precision, bool fused, std::unique_ptr<Space> space)
    : config_(expand_network(config, outputs_of(target))),
      space_(std::move(space)),
      target_(target),
      largest_batch_(largest_batch),
      input_shape_(input),
      image_box_(Box::whole(input)),
      labels_here_(target.labels_per_image),
      precision_(possible(precision)),
      type_(stores_bf16(precision_) ? ValueType::bf16 : ValueType::float32),
      value_size_(with_value_type(type_, [](auto value) { return sizeof(value); })) {
  const auto build = [&] {
    build_nodes(fused);
    Target here = target;
    here.labels_per_image = labels_here_;
    batches_.emplace(this->input(), here, largest_batch);
    place_buffers();
  };
  if (!space_) {
    build();
    return;
  }
  GroupWindow& window = space_->window();
  window.together(build);
  for (const Node& node : nodes_) window.expect_sum(node.needs.summed);
  window.expect_sum(LossMemory::count);
  window.expect_shards(parameter_count_);
  window.open();
}

// Build nodes, then find places in memory -----------------------------------------------------------------------------

/// What one of the values that make_nodes() numbers has become: its number here, and how a group has it.
struct Network::Made {
  int value = 0;
  Shape shape;  ///< of the whole
  Division division;
};

/// A value that holds what the ranks of a group need of another.
struct Network::Halo {
  int of;
  std::vector<Box> needs;
  int value;
};

void Network::build_nodes(bool fused) {
  std::vector<Made> made{{0, input_shape_, {}}};
  std::vector<Halo> halos;
  if (space_) {
    made[0].division = space_->evenly(input_shape_);
    image_box_ = space_->box_of(made[0].division, input_shape_, space_->rank());
  }
  for (NodeConfig config : make_nodes(config_.layers, fused)) {
    std::vector<Shape> shapes;
    for (const int value : config.inputs) shapes.push_back(made[value].shape);
    std::unique_ptr<Layer> layer = make_layer(config.layer, shapes, config.epilogue);
    Made output{0, layer->output_shape(), {}};
    if (space_) {
      layer = divide(std::move(layer), config, made, output, halos);
    }
    add_node(config, std::move(layer));
    output.value = static_cast<int>(nodes_.size());
    made.push_back(output);
  }
  const Made& last = made.back();
  require_outputs(config_.name, nodes_.back().config.output, last.shape, input_shape_, target_);
  if (!space_ || target_.labels_per_image == 1) return;
  // Labels are given by pixel as images are: outputs that are divided in another way follow them.
  HaloBoxes boxes{last.division.divided(), {}, {}};
  for (int rank = 0; rank < space_->ranks(); ++rank) {
    boxes.own.push_back(space_->box_of(last.division, last.shape, rank));
    boxes.needs.push_back(space_->box_of(made[0].division, input_shape_, rank));
  }
  if (boxes.own != boxes.needs) halo_of(last, boxes, halos);
  outputs_divided_ = made[0].division.divided();
  labels_here_ = image_box_.pixels();
}

void Network::add_node(const NodeConfig& config, std::unique_ptr<Layer> layer, bool wants_gradient) {
  Node& node = nodes_.emplace_back();
  node.config = config;
  node.wants_gradient = wants_gradient;
  node.layer = std::move(layer);
  node.shape = node.layer->output_shape();
  node.needs = node.layer->needs(largest_batch_, type_);
  node.first_parameter = static_cast<int>(parameters_.size());
  node.first_statistic = static_cast<int>(statistics_.size());
  const auto append = [&](const std::vector<TensorSpec>& specs, std::vector<NamedTensor>& tensors,
                          std::vector<TensorSpec>& kept, std::size_t& count) {
    for (const TensorSpec& spec : specs) {
      tensors.push_back({config.layer.name, spec.name, spec.extents, count});
      kept.push_back(spec);
      count += tensors.back().size();
    }
  };
  append(node.layer->parameters(), parameters_, parameter_specs_, parameter_count_);
  append(node.layer->statistics(), statistics_, statistic_specs_, statistic_count_);
}

/// A layer's part for this rank of the group. Its inputs become the numbers of values here, of halos where its part
/// reads others than this rank's own pixels; `output` learns how it is divided.
std::unique_ptr<Layer> Network::divide(std::unique_ptr<Layer> layer, NodeConfig& config, const std::vector<Made>& made,
                                       Made& output, std::vector<Halo>& halos) {
  const auto divided = std::find_if(config.inputs.begin(), config.inputs.end(),
                                    [&](int value) { return made[value].division.divided(); });
  const Made& leading = made[divided == config.inputs.end() ? config.inputs[0] : *divided];
  output.division = space_->following(leading.division, leading.shape, output.shape);
  LayerPart part{space_->box_of(output.division, output.shape, space_->rank()),
                 {},
                 [this](const auto& exec, auto sums) { space_->add(exec, sums); }};
  for (std::size_t i = 0; i < config.inputs.size(); ++i) {
    const Made& input = made[config.inputs[i]];
    HaloBoxes boxes{input.division.divided(), {}, {}};
    for (int rank = 0; rank < space_->ranks(); ++rank) {
      boxes.own.push_back(space_->box_of(input.division, input.shape, rank));
      Box needs = output.division.divided() ? layer->reads(i, space_->box_of(output.division, output.shape, rank))
                                            : Box::whole(input.shape);
      const Box& own = boxes.own.back();
      // Then it need not be copied without its end.
      if (layer->takes_more() && own.begin == needs.begin && own.holds(needs)) needs = own;
      boxes.needs.push_back(needs);
    }
    config.inputs[i] = boxes.own == boxes.needs ? input.value : halo_of(input, boxes, halos);
    part.inputs.push_back(boxes.needs[space_->rank()]);
  }
  if (output.division.divided()) return layer->part(part);
  if (space_->divides_channels()) {
    if (auto share = layer->channel_part({space_->rank(), space_->ranks(), part.add})) return share;
  }
  return layer;
}

int Network::halo_of(const Made& value, const HaloBoxes& boxes, std::vector<Halo>& halos) {
  for (const Halo& halo : halos) {
    if (halo.of == value.value && halo.needs == boxes.needs) return halo.value;
  }
  NodeConfig config;
  config.layer.name = "halo of " + (value.value == 0 ? images_input : nodes_[value.value - 1].config.output);
  config.output = config.layer.name;
  config.types = "halo";
  config.inputs = {value.value};
  add_node(config, make_halo_layer(*space_, value.shape, boxes, largest_batch_, type_), wants_gradient(value.value));
  halos.push_back({value.value, boxes.needs, static_cast<int>(nodes_.size())});
  return halos.back().value;
}

/// How many values `batch` images have.
std::size_t Network::value_count(int index, int batch) const {
  const Shape shape = index == 0 ? input() : nodes_[index - 1].shape;
  return static_cast<std::size_t>(shape.values() * batch);
}

void Network::place_buffers() {
  const int count = static_cast<int>(nodes_.size());
  const auto bytes = [&](int value) { return value_count(value, largest_batch_) * value_size_; };
  std::vector<PlannedNode> planned;
  std::size_t workspace_bytes = 0;
  for (int i = 0; i < count; ++i) {
    const Node& node = nodes_[i];
    planned.push_back({node.config, node.needs, node.wants_gradient, bytes(i + 1)});
    workspace_bytes = std::max(workspace_bytes, node.needs.workspace_bytes);
  }
  if (type_ != ValueType::float32) {
    workspace_bytes = std::max(workspace_bytes, value_count(count, largest_batch_) * sizeof(float));  // for the loss
  }
  plan_ = plan_network(type_ == ValueType::float32 ? 0 : bytes(0), std::move(planned));
  require_kernel_memory(static_cast<double>(plan_.bytes + workspace_bytes),
                        "activations and gradients of " + std::to_string(largest_batch_) + " images");
  arena_ = Buffer<std::byte>(Kokkos::view_alloc(std::string("halograd::arena"), Kokkos::WithoutInitializing),
                             plan_.bytes + workspace_bytes);
  if (runs_on_host) prefer_large_pages(arena_.data(), arena_.size());
  Kokkos::deep_copy(arena_, std::byte{0});
  workspace_ = slice(arena_, plan_.bytes, workspace_bytes);
  prepare_calls();
}

/// Sizes the lists of each node's call, so that a step allocates nothing.
void Network::prepare_calls() {
  std::vector<bool> seen(nodes_.size() + 1, false);
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    for (const int value : node.config.inputs) {
      node.first_consumer.push_back(!seen[value]);
      seen[value] = true;
    }
    const std::size_t parameters = node.layer->parameters().size();
    node.call.inputs.resize(node.config.inputs.size());
    node.call.input_gradients.resize(node.config.inputs.size());
    node.call.accumulate.resize(node.config.inputs.size());
    node.call.parameters.resize(parameters);
    node.call.parameter_gradients.resize(parameters);
    node.call.statistics.resize(node.layer->statistics().size());
    node.call.type = type_;
    node.call.precision = precision_;
    node.call.saved = slice(arena_, plan_.saved[i], node.needs.saved_bytes);
    node.call.mask = plan_.masks_input[i];
    node.call.workspace = workspace_;
  }
}

Vector<std::byte> Network::value(int index, int batch) const {
  return slice(arena_, plan_.values[index], value_count(index, batch) * value_size_);
}

Vector<std::byte> Network::gradient(int index, int batch) const {
  if (!wants_gradient(index)) return {};
  return slice(arena_, plan_.gradients[index], value_count(index, batch) * value_size_);
}

// Settings and initial weights ----------------------------------------------------------------------------------------

void Network::replay_steps(bool on) {
  const bool random = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.needs.random; });
  replays_steps_ = on && !runs_on_host && !random && !space_ && steps_.refusal().empty();
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

// A step --------------------------------------------------------------------------------------------------------------

void Network::load(const ExecutionSpace& exec, const HostBatch& batch) {
  const Region region("load");
  batch_ = batches_->load(exec, batch);
  if (type_ == ValueType::bf16) {
    convert_values<float, Bfloat16>(exec, batch_.images, values_of<Bfloat16>(value(0, batch.size)));
  }
}

void Network::forward(const ExecutionSpace& exec, const Replica& replica, int batch, bool training,
                      std::uint64_t random_key) {
  const Region whole("forward");
  for (std::size_t i = 0; i < nodes_.size(); ++i) forward_node(exec, replica, i, batch, training, random_key);
}

void Network::forward_node(const ExecutionSpace& exec, const Replica& replica, std::size_t i, int batch, bool training,
                           std::uint64_t random_key) {
  Node& node = nodes_[i];
  LayerCall& call = node.call;
  call.batch = batch;
  call.training = training;
  call.random_key = random_bits(random_key, static_cast<std::uint64_t>(node.config.index));
  for (std::size_t j = 0; j < node.config.inputs.size(); ++j) {
    const int input = node.config.inputs[j];
    call.inputs[j] = input == 0 && type_ == ValueType::float32 ? bytes_of(batch_.images) : value(input, batch);
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
    Node& node = nodes_[i];
    if (!node.wants_gradient) continue;
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
    if (plan_.masks_itself[i]) {
      with_value_type(type_, [&](auto value) {
        using T = decltype(value);
        relu_backward<T>(exec, call.y<T>(), call.dy<T>(), values_of<T>(call.output_gradient), false);
      });
    }
    node.layer->backward(exec, call);
    // Parameters lie in the order of the nodes, so what is complete is a tail of the buffer.
    if (ready && !call.parameter_gradients.empty()) ready(parameters_[node.first_parameter].offset);
  }
}

/// What the last layer gave, in floats, whatever the network stores.
Vector<float> Network::outputs(const ExecutionSpace& exec, int batch) const {
  const int last = static_cast<int>(nodes_.size());
  const Vector<std::byte> stored = value(last, batch);
  if (type_ == ValueType::float32) return values_of<float>(stored);
  Vector<float> floats = values_at<float>(workspace_, 0, value_count(last, batch));
  convert_values<Bfloat16, float>(exec, values_of<Bfloat16>(stored), floats);
  return floats;
}

/// In floats, whatever the network stores: the outputs are then converted, and their gradient back.
void Network::loss(const ExecutionSpace& exec, int batch, bool with_gradient) {
  const Region region("loss");
  const Vector<std::byte> stored_gradient = gradient(static_cast<int>(nodes_.size()), batch);
  const Vector<float> floats = outputs(exec, batch);
  const Vector<float> gradients = type_ == ValueType::bf16 ? floats : values_of<float>(stored_gradient);
  const long rows = batch * labels_here_, all_rows = batch * target_.labels_per_image;
  const int sharers = space_ && !outputs_divided_ ? space_->ranks() : 1;  // that compute the same loss
  const LossBatch<float> outputs{.rows = rows,
                                 .width = nodes_.back().shape.channels,
                                 .outputs = floats,
                                 .labels = batch_.labels,
                                 .scale = 1.0 / static_cast<double>(all_rows * sharers),
                                 .gradient = with_gradient ? gradients : Vector<float>()};
  loss_named(target_.loss.name)
      .launch({exec, outputs, target_.target_values > 0, batch_.targets, target_.loss.label_smoothing, loss_});
  if (type_ == ValueType::bf16 && with_gradient) {
    convert_values<float, Bfloat16>(exec, gradients, values_of<Bfloat16>(stored_gradient));
  }
}

LossSum Network::train(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                       std::uint64_t random_key, const GradientReady& ready, const HostBatch& next,
                       std::span<float> outputs) {
  load(exec, batch);
  const auto launch = [&](const ExecutionSpace& on) {
    forward(on, replica, batch.size, true, random_key);
    loss(on, batch.size, true);
    if (!outputs.empty()) read_values(on, batch.size, outputs, Read::outputs);
    backward(on, replica, batch.size, space_ ? GradientReady() : ready);
  };
  if (replays_steps_ && !ready && outputs.empty()) {
    steps_.run(exec,
               {batch.size,
                {batch_.images.data(), replica.parameters.data(), replica.gradients.data(), replica.statistics.data()}},
               launch);
  } else {
    launch(exec);
  }
  if (space_) {
    space_->add_shards(exec, replica.gradients);
    if (ready) ready(0);
  }
  batches_->prefetch(next);
  return read_sums(exec);
}

/// Those of the group, where its ranks have parts of the outputs.
LossSum Network::read_sums(const ExecutionSpace& exec) const {
  LossSum sum = read_loss(exec, target_, loss_);
  if (!outputs_divided_) return sum;
  std::array<double, LossMemory::count> numbers{sum.loss, static_cast<double>(sum.correct),
                                                static_cast<double>(sum.overlap), static_cast<double>(sum.either)};
  space_->add(std::span<double>(numbers));
  return {numbers[0], std::lround(numbers[1]), std::lround(numbers[2]), std::lround(numbers[3])};
}

LossSum Network::evaluate(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                          const HostBatch& next, std::span<float> values, Read read) {
  load(exec, batch);
  forward(exec, replica, batch.size, false, 0);
  loss(exec, batch.size, false);
  batches_->prefetch(next);
  if (!values.empty()) read_values(exec, batch.size, values, read);
  return read_sums(exec);
}

void Network::predict(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                      std::span<float> values, const HostBatch& next, Read read) {
  load(exec, batch);
  forward(exec, replica, batch.size, false, 0);
  batches_->prefetch(next);
  read_values(exec, batch.size, values, read);
}

/// Predictions are made where the outputs lie, which nothing reads after this.
void Network::read_values(const ExecutionSpace& exec, int batch, std::span<float> to, Read read) const {
  const Vector<float> values = outputs(exec, batch);
  HALOGRAD_REQUIRE(to.size() == values.size(), "room for ", to.size(), " outputs, expected ", values.size());
  const int width = output().channels;
  if (read == Read::predictions) {
    const PredictionCall call{exec, static_cast<long>(values.size()) / width, width, values};
    loss_named(target_.loss.name).predictions->from_outputs(call);
  }
  Kokkos::deep_copy(exec, HostVector<float>(to.data(), to.size()), values);
  exec.fence();
}

std::string Network::first_non_finite(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                                      std::uint64_t random_key) {
  load(exec, batch);
  // The group's ranks go on together, or not at all.
  const auto any = [&](long count) {
    double numbers[] = {static_cast<double>(count)};
    if (space_) space_->add(std::span<double>(numbers));
    return numbers[0] > 0;
  };
  if (any(count_non_finite<float>(exec, batch_.images))) return "the images";
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    forward_node(exec, replica, i, batch.size, true, random_key);
    const auto count = [&](auto value) {
      return count_non_finite<decltype(value)>(exec, nodes_[i].call.y<decltype(value)>());
    };
    if (any(with_value_type(type_, count))) {
      return "the output of layer " + nodes_[i].config.output;
    }
  }
  loss(exec, batch.size, false);
  if (!std::isfinite(read_sums(exec).loss)) return "the loss";
  if (space_) space_->gather(exec, replica.gradients);
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto& tensor = parameters_[i];
    if (count_non_finite<float>(exec, slice(replica.gradients, tensor.offset, tensor.size())) > 0) {
      return "the gradient of layer " + tensor.layer;
    }
  }
  return "";
}

// What a network tells about itself -----------------------------------------------------------------------------------

double Network::forward_flops() const {
  double sum = 0;
  for (const Node& node : nodes_) sum += node.layer->forward_flops();
  return sum;
}

std::vector<NodeInfo> Network::nodes() const {
  std::vector<NodeInfo> result;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    NodeInfo& info = result.emplace_back();
    info.name = node.config.layer.name;
    info.types = node.config.types;
    for (const int value : node.config.inputs) {
      info.inputs.push_back(value == 0 ? input() : nodes_[value - 1].shape);
      info.input_needs_gradient.push_back(wants_gradient(value));
    }
    info.output = node.shape;
    for (const NamedTensor& tensor : parameters_) info.parameters += tensor.layer == info.name ? tensor.size() : 0;
    info.forward_flops = node.layer->forward_flops();
    info.needs = node.needs;
    info.needs.backward_reads_output |= plan_.masks_itself[i];
  }
  return result;
}

}  // namespace halograd
