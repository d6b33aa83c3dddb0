#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// The run file as plain structs. Each field's default stands here and nowhere else; its key, meaning and
/// range stand in config/fields.hpp. Depends on nothing, so every folder of lib/ may use it.
namespace halograd {

/// [data]: where the images are and how a batch is made of them.
struct DataConfig {
  std::string format = "idx";  ///< idx, cifar10, cifar100, hdf5 or synthetic
  std::string path;            ///< a folder (idx, cifar10, cifar100) or a file (hdf5); relative to the run file
  std::vector<double> mean;    ///< per channel, in units of the largest value; empty: 0
  std::vector<double> standard_deviation;  ///< per channel, in units of the largest value; empty: 1
  int pad_crop = 0;                        ///< training images are padded by this many zeros, then cropped at random
  bool flip = false;                       ///< training images are mirrored left to right at random
  bool prefetch = true;                    ///< a thread prepares the next batches while this one is trained on
  int prefetch_batches = 2;                ///< so many
  // format = "hdf5": sets larger than memory
  std::string shuffle = "auto";             ///< auto, full, window: which images may meet in a batch
  int shuffle_window = 32;                  ///< window: blocks (of about 1 MiB) that are shuffled together
  int readers = 2;                          ///< threads a rank that read blocks ahead
  std::uint64_t cache_memory = 1073741824;  ///< bytes of each of a rank's sets that are kept in memory
  std::string cache_folder;                 ///< on the node's own disk, shared by its ranks; empty: none
  double throttle_mb_per_second = 0;        ///< a test aid: file reads are slowed down to it; 0: as fast as they are
  // format = "synthetic": random images whose class can be learnt, for benchmarks and tests
  int synthetic_train = 1024;  ///< training images
  int synthetic_test = 256;    ///< test images
  std::vector<int> synthetic_shape{32, 32,
                                   3};  ///< height, width, channels; volumes have a depth before, rows no height
  int synthetic_classes = 10;
  std::string synthetic_labels = "image";  ///< one an image, or one a pixel
  bool operator==(const DataConfig&) const = default;
};

/// One [[network.layer]]. Which keys a layer takes depends on its type (config/fields.hpp).
struct LayerConfig {
  std::string type;                 ///< one of layer_types in config/fields.hpp
  std::string name;                 ///< unique; the reader fills in type and running number ("conv3")
  std::vector<std::string> inputs;  ///< names of earlier layers, or "input"; empty: the layer before
  int channels = 0;                 ///< conv, conv_transpose, dense: outputs K
  // A number for each spatial axis of the input (T, R, S), or one for all of them:
  std::vector<int> kernel{1};          ///< conv, conv_transpose, pools
  std::vector<int> stride{1};          ///< conv, conv_transpose, pools
  std::vector<int> padding{0};         ///< conv, conv_transpose, pools: zeros on each side
  std::vector<int> dilation{1};        ///< conv, conv_transpose
  std::vector<int> output_padding{0};  ///< conv_transpose: pixels added to the end of the output
  std::vector<int> factor{2};          ///< upsample
  int groups = 1;                      ///< conv, conv_transpose, group_norm
  bool bias = true;                    ///< conv, conv_transpose, dense
  double slope = 0.01;                 ///< leaky_relu: of negative values
  double probability = 0.5;            ///< dropout: share of values set to zero
  double epsilon = 1e-5;               ///< batch_norm, group_norm, layer_norm
  double momentum = 0.1;               ///< batch_norm: weight of a new batch in the running statistics
  bool operator==(const LayerConfig&) const = default;
};

/// [network]: a reference network by name, or a list of layers.
struct NetworkConfig {
  std::string name;                 ///< a reference network; anything else with layers
  std::vector<LayerConfig> layers;  ///< empty: the reference network of that name
  bool operator==(const NetworkConfig&) const = default;
};

/// [loss]: what training makes small. Of labels an image or a pixel, as the data have them.
struct LossConfig {
  std::string name = "cross_entropy";  ///< cross_entropy, binary_cross_entropy, mean_squared_error
  double label_smoothing = 0.0;        ///< cross_entropy: share of the target spread over all classes
  bool operator==(const LossConfig&) const = default;
};

/// What models are judged by on the test set, given the loss: "accuracy", "iou" (intersection over union) or "error".
inline std::string metric_of(const LossConfig& loss) {
  if (loss.name == "binary_cross_entropy") return "iou";
  return loss.name == "mean_squared_error" ? "error" : "accuracy";
}

/// [optimizer]
struct OptimizerConfig {
  std::string name = "sgd";  ///< sgd, adam, adamw, adagrad
  double learning_rate = 0.05;
  double momentum = 0.0;      ///< sgd
  bool nesterov = false;      ///< sgd
  double weight_decay = 0.0;  ///< adamw: decoupled; the others: added to the gradient
  double beta1 = 0.9;         ///< adam, adamw
  double beta2 = 0.999;       ///< adam, adamw
  double epsilon = 1e-8;      ///< adam, adamw, adagrad
  bool operator==(const OptimizerConfig&) const = default;
};

/// [schedule]: the factor on the learning rate, per step.
struct ScheduleConfig {
  std::string name = "constant";   ///< constant, step, cosine
  double warmup_epochs = 0.0;      ///< linear from 0 to 1 over these, before the schedule
  std::vector<double> milestones;  ///< step: epochs at which the rate is multiplied by gamma
  double gamma = 0.1;              ///< step
  double final_factor = 0.0;       ///< cosine: the factor at the end
  bool operator==(const ScheduleConfig&) const = default;
};

/// [topology]: the directed graph on the ranks.
struct TopologyConfig {
  std::string kind = "ring";          ///< a graph of comm/graphs.hpp, or file
  std::string file;                   ///< kind = "file": TOML with ranks and [[edge]] from, to, weight
  std::string weights = "automatic";  ///< automatic, uniform or metropolis_hastings
  int degree = 4;                     ///< random_regular: neighbours of a rank, even
  std::uint64_t seed = 1;             ///< random_regular: which graph
  bool operator==(const TopologyConfig&) const = default;
};

/// [averager]: how the replicas are kept together.
struct AveragerConfig {
  std::string name = "neighbour";            ///< none, allreduce, neighbour
  std::string order = "combine_then_adapt";  ///< neighbour: combine_then_adapt or adapt_then_combine
  int staleness = 0;        ///< neighbour: steps that a halo may be behind; 0: exactly of the step, -1: any
  double age_factor = 1.0;  ///< neighbour: a halo's weight is multiplied by this for each step that it is behind
  double patience = 0.0;    ///< neighbour: seconds after which a late neighbour is left out; 0: wait for it
  bool operator==(const AveragerConfig&) const = default;
};

/// [comm]: the transport under neighbour averaging.
struct CommConfig {
  bool force_put = false;  ///< use MPI_Put also between ranks that share memory (to test the path between nodes)
  int slots = 2;           ///< versions of a halo that can be in flight on an edge, at least 2
  bool operator==(const CommConfig&) const = default;
};

/// [training]
struct TrainingConfig {
  int epochs = 1;
  int batch = 128;                         ///< images a step over all ranks
  std::uint64_t seed = 1;                  ///< initial weights, shuffling, augmentation, dropout
  int threads = 0;                         ///< a rank; 0: this node's usable cores over its ranks
  std::string resumed_optimizer = "mean";  ///< on another number of ranks: mean of the replicas' states, or reset
  std::string non_finite = "stop";  ///< where a loss or gradient is not finite: stop, or skip (the rank's update)
  double time_limit = 0;            ///< seconds a call of the program trains before it stops with a checkpoint; 0: none
  bool operator==(const TrainingConfig&) const = default;
};

/// [output]
struct OutputConfig {
  std::string folder = "runs";  ///< a run is kept in folder/name
  int checkpoint_epochs = 1;    ///< a checkpoint every so many epochs, and at the end; 0: none
  int checkpoint_steps = 0;     ///< and every so many steps; 0: none within epochs
  int keep = 2;                 ///< checkpoints that are kept, the newest
  bool keep_best = true;        ///< and the one whose mean model is best on the test set
  int print_steps = 100;        ///< without a terminal: a line every so many steps; 0: only the epochs' rows
  bool operator==(const OutputConfig&) const = default;
};

/// A whole run file.
struct RunConfig {
  std::string name = "run";
  TrainingConfig training;
  DataConfig data;
  NetworkConfig network;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  AveragerConfig averager;
  TopologyConfig topology;
  CommConfig comm;
  OutputConfig output;
  bool operator==(const RunConfig&) const = default;
};

}  // namespace halograd
