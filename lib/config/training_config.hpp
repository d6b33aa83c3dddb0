#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace halograd {

/// [training]
struct TrainingConfig {
  int epochs = 1;
  int batch = 128;                         ///< images per step over all ranks
  std::uint64_t seed = 1;                  ///< initial weights, shuffling, augmentation, dropout
  int threads = 0;                         ///< a rank; 0: this node's usable cores over its ranks
  int ranks_per_device = 1;                ///< at most, where ranks compute on accelerators
  std::string shares = "equal";            ///< of a batch: equal, or in proportion to the ranks' measured speed
  std::string resumed_optimizer = "mean";  ///< on another number of ranks: mean of the replicas' states, or reset
  std::string non_finite = "stop";      ///< where a loss or gradient is not finite: stop, or skip (the rank's update)
  std::string precision = "fp32";       ///< of matrix products (nn/precisions.hpp)
  std::string step_recording = "auto";  ///< on devices: auto, where a step can be replayed; off
  double time_limit = 0;  ///< seconds a call of the program trains before it stops with a checkpoint; 0: none
  bool operator==(const TrainingConfig&) const = default;
};

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

}  // namespace halograd
