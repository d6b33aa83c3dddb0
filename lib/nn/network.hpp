#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/network_config.hpp"
#include "kernels/step_recorder.hpp"
#include "kernels/types.hpp"
#include "nn/batch_memory.hpp"
#include "nn/fuse.hpp"
#include "nn/halo_layer.hpp"
#include "nn/layer.hpp"
#include "nn/loss.hpp"
#include "nn/network_plan.hpp"
#include "nn/space.hpp"
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
  /// With `space` this rank computes its part of a replica that a group of ranks shares: construction, make_replica
  /// aside every use, and destruction are then collective over the group, whose ranks come with parts of the same
  /// images (image_box) and leave with the same statistics and sums, each with its shard of the gradients (Space).
  Network(const NetworkConfig& config, const Shape& input, const Target& target, int largest_batch,
          Precision precision = Precision::full, bool fused = true, std::unique_ptr<Space> space = nullptr);
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
  // Where the group is more than this rank: of its part.
  [[nodiscard]] Shape input() const { return part_of(input_shape_, image_box_); }
  [[nodiscard]] const Shape& output() const { return nodes_.back().shape; }
  /// What this rank is given of each image, and of its labels where these are one per pixel.
  [[nodiscard]] const Box& image_box() const { return image_box_; }
  [[nodiscard]] int largest_batch() const { return largest_batch_; }
  [[nodiscard]] std::vector<NodeInfo> nodes() const;

  /// On devices: whether train gives steps to the device as a graph, recorded once (StepRecorder); off at first. It
  /// does where no layer is random and nobody is to be told of gradients during backward.
  void replay_steps(bool on);
  [[nodiscard]] bool replays_steps() const { return replays_steps_; }
  /// Why a step could not be recorded, so that all go on one by one; empty where none has failed.
  [[nodiscard]] const std::string& replay_refusal() const { return steps_.refusal(); }

  /// How this rank works together with others of its group; null: it has the replica for itself.
  [[nodiscard]] const Space* space() const { return space_.get(); }
  /// Whether output() is this rank's part: other ranks of the group have the rest.
  [[nodiscard]] bool outputs_divided() const { return outputs_divided_; }

  /// Initial weights, a function of the seed and of each tensor's name alone.
  [[nodiscard]] Replica make_replica(std::uint64_t seed) const;

  /// Is called during a backward pass: the gradients from `begin` to the end of the flat buffer are complete, as far as
  /// work already given to the execution space goes. Falls from call to call, at last to 0.
  using GradientReady = std::function<void(std::size_t begin)>;

  /// Forward and backward: replica.gradients becomes the gradient of the batch's mean loss. `random_key` decides
  /// dropout. `next` is the batch of the call after this one where that is known: it is copied to the device meanwhile,
  /// and must not change until then. `outputs`: (size, output()), of the forward pass; empty: not wanted.
  LossSum train(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch, std::uint64_t random_key,
                const GradientReady& ready = {}, const HostBatch& next = {}, std::span<float> outputs = {});

  /// Where training on this batch first leaves the finite numbers: "the images", "the output of layer conv1", "the
  /// loss", "the gradient of layer conv1", or empty. For a look after train has gone wrong: it computes the forward
  /// pass again, and may leave statistics that are not finite either.
  std::string first_non_finite(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                               std::uint64_t random_key);

  /// What is read of a forward pass: the outputs themselves, or what they say (Loss::predictions).
  enum class Read { outputs, predictions };

  /// Forward alone, with running statistics and without dropout. `next` as above. `values`: as predict leaves them;
  /// empty: not wanted.
  LossSum evaluate(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch,
                   const HostBatch& next = {}, std::span<float> values = {}, Read read = Read::predictions);

  /// The same without labels: values (size, output()).
  void predict(const ExecutionSpace& exec, const Replica& replica, const HostBatch& batch, std::span<float> values,
               const HostBatch& next = {}, Read read = Read::predictions);

 private:
  /// A node as the network keeps it.
  struct Node {
    NodeConfig config;
    std::unique_ptr<Layer> layer;
    Shape shape;
    std::vector<bool> first_consumer;  ///< whether this node writes an input's gradient first, going backwards
    int first_parameter = 0, first_statistic = 0;
    bool wants_gradient = true;  ///< of its output: false for what comes from the images alone
    LayerNeeds needs;
    LayerCall call;  ///< its lists are sized once, so that a step allocates nothing
  };

  void build_nodes(bool fused);
  void add_node(const NodeConfig& config, std::unique_ptr<Layer> layer, bool wants_gradient = true);
  // In a group.
  struct Made;
  struct Halo;
  std::unique_ptr<Layer> divide(std::unique_ptr<Layer> layer, NodeConfig& config, const std::vector<Made>& made,
                                Made& output, std::vector<Halo>& halos);
  int halo_of(const Made& value, const HaloBoxes& boxes, std::vector<Halo>& halos);
  [[nodiscard]] bool wants_gradient(int value) const { return value != 0 && nodes_[value - 1].wants_gradient; }
  [[nodiscard]] LossSum read_sums(const ExecutionSpace& exec) const;
  void place_buffers();
  void prepare_calls();
  void load(const ExecutionSpace& exec, const HostBatch& batch);
  void forward(const ExecutionSpace& exec, const Replica& replica, int batch, bool training, std::uint64_t random_key);
  void forward_node(const ExecutionSpace& exec, const Replica& replica, std::size_t i, int batch, bool training,
                    std::uint64_t random_key);
  void backward(const ExecutionSpace& exec, const Replica& replica, int batch, const GradientReady& ready);
  [[nodiscard]] Vector<float> outputs(const ExecutionSpace& exec, int batch) const;
  void loss(const ExecutionSpace& exec, int batch, bool with_gradient);
  void read_values(const ExecutionSpace& exec, int batch, std::span<float> to, Read read) const;
  [[nodiscard]] std::size_t value_count(int index, int batch) const;
  [[nodiscard]] Vector<std::byte> value(int index, int batch) const;
  [[nodiscard]] Vector<std::byte> gradient(int index, int batch) const;

  NetworkConfig config_;
  std::unique_ptr<Space> space_;  ///< null: this rank has the replica for itself
  Target target_;
  int largest_batch_;
  Shape input_shape_;  ///< of whole images
  Box image_box_;
  long labels_here_;  ///< of an image, on this rank
  bool outputs_divided_ = false;
  Precision precision_;
  ValueType type_;
  std::size_t value_size_;  ///< bytes of one
  std::vector<Node> nodes_;
  std::vector<NamedTensor> parameters_, statistics_;
  std::vector<TensorSpec> parameter_specs_, statistic_specs_;
  std::size_t parameter_count_ = 0, statistic_count_ = 0;

  NetworkPlan plan_;
  Buffer<std::byte> arena_;
  Vector<std::byte> workspace_;
  std::optional<BatchMemory> batches_;  ///< once it is known what this rank is given
  DeviceBatch batch_;                   ///< in work
  LossMemory loss_;
  StepRecorder steps_;
  bool replays_steps_ = false;
};

}  // namespace halograd
