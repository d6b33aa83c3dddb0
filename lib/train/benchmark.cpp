#include "train/benchmark.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "data/dataset.hpp"
#include "kernels/accelerator.hpp"
#include "kernels/copy_stream.hpp"
#include "kernels/random.hpp"
#include "kernels/region.hpp"
#include "nn/network.hpp"
#include "nn/precisions.hpp"
#include "nn/reference_networks.hpp"
#include "optimizers/optimizer.hpp"
#include "support/memory.hpp"
#include "train/model.hpp"
#include "train/region_times.hpp"
#include "train/replica_group.hpp"
#include "window/group_window.hpp"

namespace halograd {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int warm_up_steps = 4;  // devices record the third and the fourth: a batch has two places
constexpr std::size_t least_steps = 5;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// A network with the batch that all steps train on.
class Steps {
  // A device may still be copying from these when the network goes: they go after it.
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
  std::optional<PinnedRange> pinned_images_, pinned_labels_;
  std::unique_ptr<Network> network_;

 public:
  explicit Steps(const BenchmarkCase& benchmark)
      : network_(build_model(benchmark.run, benchmark.input,
                             Target(benchmark.classes, benchmark.labels_per_image, benchmark.run.loss),
                             benchmark.run.training.batch, precision_named(benchmark.run.training.precision),
                             space_without_others(benchmark.run.parallel, benchmark.input))),
        space_(network_->space()),
        replica_(network_->make_replica(1)),
        own_parameters_(own_part(replica_.parameters)),
        own_gradients_(own_part(replica_.gradients)),
        optimizer_(make_optimizer(benchmark.run.optimizer, own_parameters_.size())),
        rate_(benchmark.run.optimizer.learning_rate) {
    const int batch = benchmark.run.training.batch;
    network_->replay_steps(true);
    images_.resize(static_cast<std::size_t>(batch * network_->input().values()));
    const bool of_pixels = benchmark.labels_per_image > 1;
    labels_.resize(static_cast<std::size_t>(batch * (of_pixels ? network_->image_box().pixels() : 1)));
    pinned_images_.emplace(images_.data(), images_.size() * sizeof(float));
    pinned_labels_.emplace(labels_.data(), labels_.size() * sizeof(std::int32_t));
    batch_ = {batch, images_.data(), labels_.data()};
    constexpr double spread = 3.4641016151377544;  // uniform with variance 1
    for (std::size_t i = 0; i < images_.size(); ++i) {
      images_[i] = static_cast<float>(spread * (random_uniform(1, i) - 0.5));
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      labels_[i] = static_cast<std::int32_t>(random_bits(2, i) % static_cast<std::uint64_t>(benchmark.classes));
    }
  }

  /// Seconds of one step. As in training, devices copy the next batch, the same one here, meanwhile.
  double step() {
    const auto begin = Clock::now();
    network_->train(exec_, replica_, batch_, 1, {}, batch_);
    {
      const Region region("update");
      optimizer_->step(exec_, rate_, ++count_, 0, own_parameters_, own_gradients_);
    }
    if (space_ != nullptr) space_->gather(exec_, replica_.parameters);
    exec_.fence();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  /// Steps until the time is over; `after` is called after each.
  template <class After>
  std::vector<double> run(double seconds, const After& after) {
    std::vector<double> times;
    const auto begin = Clock::now();
    while (times.size() < least_steps || std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
      times.push_back(step());
      after();
    }
    return times;
  }

  [[nodiscard]] double optimizer_values() const {
    double values = 0;
    for (const auto& state : optimizer_->state()) values += static_cast<double>(state.size());
    return values;
  }

  [[nodiscard]] Network& network() const { return *network_; }
  [[nodiscard]] GroupTraffic traffic() const {
    if (space_ == nullptr) return {};
    const GroupWindow& window = space_->window();
    const auto steps = static_cast<double>(count_);
    return {static_cast<double>(window.exchanges()) / steps, static_cast<double>(window.bytes_sent()) / steps};
  }

 private:
  /// What this rank updates: in a group, its shard.
  [[nodiscard]] Vector<float> own_part(const Vector<float>& values) const {
    return space_ != nullptr ? space_->shard(values) : values;
  }

  ExecutionSpace exec_;
  const Space* space_;
  Replica replica_;
  Vector<float> own_parameters_, own_gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  double rate_;
  std::int64_t count_ = 0;
  HostBatch batch_;
};

/// Floating-point operations and least bytes of each region of a step, by its path.
std::map<std::string, PassTime> passes_of(const Steps& steps, const BenchmarkCase& benchmark) {
  std::map<std::string, PassTime> passes;
  const double batch = benchmark.run.training.batch;
  const double value_bytes = stores_bf16(precision_named(benchmark.run.training.precision)) ? 2 : sizeof(float);
  for (const NodeInfo& node : steps.network().nodes()) {
    const auto add = [&](const std::string& path, const std::string& pass, double flops, double values, double floats) {
      passes[path] = {
          node.name, node.types, to_string(node.output), pass, 0, flops, value_bytes * values + sizeof(float) * floats};
    };
    double inputs = 0, gradients = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const double values = batch * static_cast<double>(node.inputs[i].values());
      inputs += values;
      gradients += node.input_needs_gradient[i] ? values : 0;
    }
    const double output = batch * static_cast<double>(node.output.values());
    const double parameters = static_cast<double>(node.parameters);
    const double flops = batch * node.forward_flops;
    const double read =
        (node.needs.backward_reads_input ? inputs : 0) + (node.needs.backward_reads_output ? output : 0);
    add("forward/" + node.name, "forward", flops, inputs + output, parameters);
    add("backward/" + node.name, "backward", (gradients > 0 ? 2 : 1) * flops, output + read + gradients,
        (parameters > 0 ? 2 : 0) * parameters);
    add("backward/" + node.name + "/weights", "weights", flops, inputs + output, parameters);
    add("backward/" + node.name + "/data", "data", flops, output + gradients, parameters);
  }
  const auto part = [&](const std::string& name, double floats) {
    passes[name] = {name, "", "", name, 0, 0, sizeof(float) * floats};
  };
  part("load", 2 * batch * static_cast<double>(steps.network().input().values()));
  part("loss", 2 * batch * static_cast<double>(steps.network().nodes().back().output.values()));
  const double parameters = static_cast<double>(steps.network().parameter_count());
  part("update", 3 * parameters + 2 * steps.optimizer_values());
  return passes;
}

void time_layers(Steps& steps, const BenchmarkCase& benchmark, BenchmarkResult& result) {
  RegionTimes times;
  steps.network().replay_steps(false);  // a graph has no regions
  std::vector<double> rest;
  steps.step();
  times.end_step();
  const std::vector<double> step_seconds = steps.run(benchmark.seconds, [&] { times.end_step(); });
  result.timed_seconds = median(step_seconds);
  std::map<std::string, PassTime> known = passes_of(steps, benchmark);
  for (const RegionTimes::Entry& entry : times.entries()) {
    const auto found = known.find(entry.path);
    if (found == known.end()) continue;
    PassTime pass = found->second;
    pass.seconds = median(entry.seconds);
    const bool around_others = std::any_of(times.entries().begin(), times.entries().end(), [&](const auto& other) {
      return other.parent >= 0 && times.entries()[other.parent].path == entry.path;
    });
    if (around_others) continue;  // its parts have lines of their own; what is left of it is in the rest
    result.passes.push_back(pass);
  }
  double sum = 0;
  for (const PassTime& pass : result.passes) sum += pass.seconds;
  result.passes.push_back({"rest", "", "", "rest", result.timed_seconds - sum, 0, 0});
}

double step_flops(const Network& network, int batch) {
  double sum = 0;
  for (const NodeInfo& node : network.nodes()) {
    const bool data = std::find(node.input_needs_gradient.begin(), node.input_needs_gradient.end(), true) !=
                      node.input_needs_gradient.end();
    sum += batch * node.forward_flops * (data ? 3 : 2);
  }
  return sum;
}

}  // namespace

BenchmarkCase reference_case(const std::string& name) {
  const ReferenceNetwork& reference = reference_network(name);
  BenchmarkCase result;
  result.input = reference.input;
  result.classes = reference.classes;
  if (reference.labels_pixels) result.labels_per_image = reference.input->pixels();
  result.run.network.name = name;
  result.run.loss.name = reference.loss;
  result.run.training.batch = reference.batch;
  result.run.optimizer.learning_rate = 0.01;
  result.run.optimizer.momentum = 0.9;
  return result;
}

BenchmarkCase run_file_case(const RunConfig& config) {
  BenchmarkCase result;
  result.run = config;
  const auto data = open_dataset(config.data, Split::train, config.training.seed);
  result.input = input_of(config, data->shape());
  result.labels_per_image = target_of(config, *data).labels_per_image;
  result.classes = std::max(data->classes(), data->target_values());
  return result;
}

BenchmarkResult run_benchmark(const BenchmarkCase& benchmark) {
  restart_peak_memory();
  const double free_before = free_accelerator_memory();
  Steps steps(benchmark);
  for (int i = 0; i < warm_up_steps; ++i) steps.step();
  const std::vector<double> times = steps.run(benchmark.seconds, [] {});

  const TrainingConfig& training = benchmark.run.training;
  BenchmarkResult result;
  result.network = benchmark.run.network.name;
  result.input = to_string(benchmark.input);
  result.classes = benchmark.classes;
  result.batch = training.batch;
  result.precision = training.precision;
  result.parameters = steps.network().parameter_count();
  result.steps = static_cast<long>(times.size());
  result.group = steps.traffic();
  result.seconds = median(times);
  result.fastest = *std::min_element(times.begin(), times.end());
  result.slowest = *std::max_element(times.begin(), times.end());
  result.images_per_second = training.batch / result.seconds;
  result.flops = step_flops(steps.network(), training.batch);
  result.arena_bytes = static_cast<double>(steps.network().arena_bytes());
  result.peak_memory = peak_memory();
  if (!runs_on_host) result.device_memory = free_before - free_accelerator_memory();
  result.replay_refusal = steps.network().replay_refusal();
  if (benchmark.layers) time_layers(steps, benchmark, result);
  return result;
}

}  // namespace halograd
