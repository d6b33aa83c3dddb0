#pragma once

#include <string>

#include "config/comm_config.hpp"
#include "config/data_config.hpp"
#include "config/flood_filling_config.hpp"
#include "config/network_config.hpp"
#include "config/parallel_config.hpp"
#include "config/training_config.hpp"

/// The run file as plain structs, a header for each part of the program. Each field's default stands there and nowhere
/// else; its key, meaning and range stand in run/keys.hpp. They depend on nothing, so every folder of lib/ may use
/// them.
namespace halograd {

/// [output]
struct OutputConfig {
  std::string folder = "runs";        ///< a run is kept in folder/name
  int checkpoint_epochs = 1;          ///< epochs between checkpoints, with one at the end; 0: none
  int checkpoint_steps = 0;           ///< steps between further checkpoints; 0: none within epochs
  double checkpoint_minutes = 0;      ///< without one, after which there is a further one; 0: no limit
  int local_steps = 0;                ///< steps between copies on the nodes; 0: none
  std::string local_folder = "/tmp";  ///< of each node, where they are
  int keep = 2;                       ///< checkpoints that are kept, the newest
  bool keep_best = true;              ///< and the one whose mean model is best on the test set
  bool compress = false;              ///< without loss
  int print_steps = 100;              ///< without a terminal: steps between lines; 0: only the epochs' rows
  bool operator==(const OutputConfig&) const = default;
};

/// A whole run file.
struct RunConfig {
  std::string name = "run";
  TrainingConfig training;
  DataConfig data;
  NetworkConfig network;
  FloodFillingConfig flood_filling;
  LossConfig loss;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  AveragerConfig averager;
  TopologyConfig topology;
  ParallelConfig parallel;
  CommConfig comm;
  OutputConfig output;
  bool operator==(const RunConfig&) const = default;
};

}  // namespace halograd
