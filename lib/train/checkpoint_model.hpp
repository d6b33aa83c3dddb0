#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "io/checkpoint.hpp"
#include "nn/network.hpp"

/// Between a network and a checkpoint of it.
namespace halograd {

/// A network's tensors as a checkpoint names them.
std::vector<NamedTensor> named_tensors(const std::vector<TensorInfo>& tensors);

/// Throws Error unless the checkpoint at `path` is of the run file's network and optimizer.
void require_same_model(const CheckpointHeader& header, const RunConfig& config, const std::string& path);

/// Gives `replica` the mean weights and statistics of a checkpoint. Throws Error where they differ in length.
void load_mean(const std::string& checkpoint, const Replica& replica);

}  // namespace halograd
