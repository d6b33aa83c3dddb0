#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"

namespace halograd {

/// A tensor of /mean with its Euclidean norm.
struct TensorSummary {
  NamedTensor tensor;
  bool statistic = false;  ///< else a parameter
  double norm = 0;
};

/// A replica's parameters: Euclidean norm, and distance from the mean of the replicas.
struct ReplicaSummary {
  double norm = 0;
  double distance = 0;
};

/// What is in a checkpoint, computed by one process that holds one replica at a time.
struct CheckpointSummary {
  CheckpointHeader header;
  std::int64_t parameters = 0;         ///< values a replica
  std::int64_t optimizer_buffers = 0;  ///< each as long as the parameters
  std::int64_t statistics = 0;
  std::vector<std::string> averager_state;  ///< names
  std::vector<TensorSummary> tensors;       ///< in the network's order
  std::vector<ReplicaSummary> replicas;     ///< by rank
  double consensus_distance = 0;            ///< sqrt(mean_i ||x_i - mean x||^2) of the parameters
  std::vector<std::string> damaged;         ///< datasets and rows whose checksum is wrong; empty: the file is sound
};

/// Throws Error where the file is no checkpoint of this program.
CheckpointSummary summarize_checkpoint(const std::string& path);

}  // namespace halograd
