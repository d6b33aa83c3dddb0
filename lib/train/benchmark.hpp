#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "graph/step_model.hpp"
#include "kernels/shape.hpp"

namespace halograd {

/// What is trained, and for how long.
struct BenchmarkCase {
  /// Its network, loss, optimizer, precision and training.batch: images per step. With [parallel] one rank of a group
  /// is measured.
  RunConfig run;
  Shape input;
  int classes = 0;
  long labels_per_image = 1;
  double seconds = 4;   ///< of measured steps; at least five are taken
  bool layers = false;  ///< also the time of each layer, in a second run with a fence around each
};

/// One pass of one layer (or another part of the step) over a batch: medians over the steps.
struct PassTime {
  std::string layer, type, output;  ///< type and output are empty for what is no layer
  std::string pass;                 ///< forward, backward, weights, data, loss, update, ...
  double seconds = 0;
  double flops = 0;  ///< of convolutions and dense layers
  double bytes = 0;  ///< the least it has to move: each of its tensors once
};

struct BenchmarkResult {
  std::string network;
  std::string input;
  int classes = 0;
  int batch = 0;
  std::string precision;
  std::size_t parameters = 0;
  long steps = 0;
  double seconds = 0, fastest = 0, slowest = 0;  ///< of a step: the median, and the ends
  double images_per_second = 0;                  ///< at the median
  double flops = 0;                              ///< of a step, convolutions and dense layers
  double arena_bytes = 0;                        ///< activations, gradients and workspace
  double peak_memory = 0;                        ///< bytes of the process during the steps
  double device_memory = 0;                      ///< bytes taken on an accelerator, where it is used
  GroupTraffic group{};                          ///< what a rank of a group would send
  std::string replay_refusal;                    ///< why a device took steps kernel by kernel; empty where not
  double timed_seconds = 0;                      ///< median step of the run with fences around the layers
  std::vector<PassTime> passes;                  ///< what they leave of timed_seconds is the last one, "rest"
};

/// A reference network as it is usually trained. Throws Error for an unknown name.
BenchmarkCase reference_case(const std::string& name);

/// A run file's network for images and labels like those of its data, which are opened. Throws Error where they cannot
/// be.
BenchmarkCase run_file_case(const RunConfig& config);

/// Trains a network on one random batch: forward, loss, backward, update, nothing else. With [parallel], one
/// rank of a group does so alone, and waits for nobody. Throws Error where the network does not fit in memory, or this
/// build's devices do not compute in that precision.
BenchmarkResult run_benchmark(const BenchmarkCase& benchmark);

}  // namespace halograd
