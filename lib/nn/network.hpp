#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/step_recorder.hpp"
#include "kernels/types.hpp"
#include "nn/batch_memory.hpp"
#include "nn/fuse.hpp"
#include "nn/layer.hpp"
#include "nn/loss.hpp"
#include "nn/plan.hpp"
#include "support/named_tensor.hpp"

namespace halograd {

/// What a rank trains: all parameters in one buffer, their gradients in a second, batch-norm statistics in a third.
/// Where each tensor lies is the Network's to say.
struct Replica {
  Buffer<float> parameters;
  Buffer<float> gradients;
  Buffer<float> statistics;
};

/// What one node is and works on, for tables.
struct NodeInfo {
  std::string name;
  std::string types;  ///< "conv + relu" where layers were fused
  std::vector<Shape> inputs;
  std::vector<bool> input_needs_gradient;  ///< false for the images
  Shape output;
  std::size_t parameters = 0;
  double forward_flops = 0;  ///< an image
  LayerNeeds needs;
};

/// A network: nodes in execution order, each naming its inputs, and the memory they compute in. Activations and their
/// gradients share one arena, planned by liveness when the network is built; nothing is allocated afterwards.
class Network {
 public:
  /// The layers of `config`, or the reference network that it names. Throws Error naming the layer where shapes do not
  /// chain, a name is unknown, or the last layer's outputs do not fit the target, and where this build's devices do not
  /// compute in `precision`. `fused` as in make_nodes; without it every layer is a node of its own, for comparison.
  Network(const NetworkConfig& config, const Shape& input, const Target& target, int largest_batch,
          Precision precision = Precision::full, bool fused = true);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// With the layers written out.
  [[nodiscard]] const NetworkConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<NamedTensor>& statistics() const { return statistics_; }
  [[nodiscard]] std::size_t parameter_count() const { return parameter_count_; }
  [[nodiscard]] std::size_t statistic_count() const { return statistic_count_; }
  [[nodiscard]] std::size_t arena_bytes() const { return arena_.size(); }
  [[nodiscard]] double forward_flops() const;  ///< an image
  [[nodiscard]] const Target& target() const { return target_; }
  [[nodiscard]] const Shape& input() const { return input_shape_; }
  [[nodiscard]] const Shape& output() const { return nodes_.back().shape; }
  [[nodiscard]] int largest_batch() const { return largest_batch_; }
  [[nodiscard]] std::vector<NodeInfo> nodes() const;

  /// On devices: whether train gives steps to the device as a graph, recorded once (StepRecorder); off at first. It
  /// does where no layer is random and nobody is to be told of gradients during backward.
  void replay_steps(bool on);
  [[nodiscard]] bool replays_steps() const { return replays_steps_; }
  /// Why a step could not be recorded, so that all go on one by one; empty where none has failed.
  [[nodiscard]] const std::string& replay_refusal() const { return steps_.refusal(); }

  /// Initial weights, a function of the seed and of each tensor's name alone.
  [[nodiscard]] Replica make_replica(std::uint64_t seed) const;

  /// Is called during a backward pass: the gradients from `begin` to the end of the flat buffer are complete, as far as
  /// work already given to the execution space goes. Falls from call to call, at last to 0.
  using GradientReady = std::function<void(std::size_t begin)>;

  /// Forward and backward: replica.gradients becomes the gradient of the batch's mean loss. `random_key` decides
  /// dropout. `next` is the batch of the call after this one where that is known: it is copied to the device meanwhile,
  /// and must not change until then.
  LossSum train(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch, std::uint64_t random_key,
                const GradientReady& ready = {}, const HostBatch& next = {});

  /// Where training on this batch first leaves the finite numbers: "the images", "the output of layer conv1", "the
  /// loss", "the gradient of layer conv1", or empty. For a look after train has gone wrong: it computes the forward
  /// pass again, and may leave statistics that are not finite either.
  std::string first_non_finite(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                               std::uint64_t random_key);

  /// Forward alone, with running statistics and without dropout. `next` as above. `predictions`: as predict leaves
  /// them; empty: not wanted.
  LossSum evaluate(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                   const HostBatch& next = {}, std::span<float> predictions = {});

  /// The same without labels: what the outputs say (Loss::predictions), predictions (size, output()).
  void predict(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch, std::span<float> predictions,
               const HostBatch& next = {});

 private:
  /// A node as the network keeps it.
  struct Node {
    NodeConfig config;
    std::unique_ptr<Layer> layer;
    Shape shape;
    std::vector<bool> first_consumer;  ///< whether this node writes an input's gradient first, going backwards
    int first_parameter = 0, first_statistic = 0;
    std::size_t saved_offset = 0;
    bool mask_gradient =
        false;  ///< no consumer takes the gradient back through this node's ReLU: it is done before backward
    LayerNeeds needs;
    LayerCall call;  ///< its lists are sized once, so that a step allocates nothing
  };

  void build_nodes(bool fused);
  // Where values, their gradients and what layers save lie in the arena.
  struct Lives;
  using Consumers = std::vector<std::vector<int>>;  ///< for each value, the nodes that read it, in order
  [[nodiscard]] Consumers consumers() const;
  void place_masks(const Consumers& consumers);
  [[nodiscard]] std::size_t value_bytes(int value) const;
  [[nodiscard]] Lifetime life_of_value(int value, const std::vector<int>& consumers) const;
  [[nodiscard]] Lifetime life_of_gradient(int value, const std::vector<int>& consumers) const;
  void share_places(int value, const Consumers& consumers, Lives& lives) const;
  void place_buffers();
  void prepare_calls();
  void load(const ExecutionSpace& exec, const HostBatch& batch);
  void forward(const ExecutionSpace& exec, const Replica& replica, int batch, bool training, std::uint64_t random_key);
  void forward_node(const ExecutionSpace& exec, const Replica& replica, std::size_t i, int batch, bool training,
                    std::uint64_t random_key);
  void backward(const ExecutionSpace& exec, const Replica& replica, int batch, const GradientReady& ready);
  [[nodiscard]] Vector<float> outputs(const ExecutionSpace& exec, int batch) const;
  void loss(const ExecutionSpace& exec, int batch, bool with_gradient);
  void read_predictions(const ExecutionSpace& exec, int batch, std::span<float> predictions) const;
  [[nodiscard]] std::size_t value_count(int index, int batch) const;
  [[nodiscard]] Vector<std::byte> value(int index, int batch) const;
  [[nodiscard]] Vector<std::byte> gradient(int index, int batch) const;

  NetworkConfig config_;
  Target target_;
  int largest_batch_;
  Shape input_shape_;
  Precision precision_;
  ValueType type_;
  std::size_t value_size_;  ///< bytes of one
  std::vector<Node> nodes_;
  std::vector<NamedTensor> parameters_, statistics_;
  std::vector<TensorSpec> parameter_specs_, statistic_specs_;
  std::size_t parameter_count_ = 0, statistic_count_ = 0;

  Buffer<std::byte> arena_;
  Vector<std::byte> workspace_;
  BatchMemory batches_;
  DeviceBatch batch_;  ///< in work
  LossMemory loss_;
  StepRecorder steps_;
  bool replays_steps_ = false;
  // Values: 0 is the input, which lies in batches_ where floats are stored, i + 1 the output of node i. Several may
  // share a place (in-place layers).
  std::vector<std::size_t> value_offset_, gradient_offset_;
};

}  // namespace halograd
