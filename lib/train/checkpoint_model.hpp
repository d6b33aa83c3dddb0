#pragma once

#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "nn/network.hpp"

/// Between a network and a checkpoint of it.
namespace halograd {

/// A network's tensors as a checkpoint names them.
std::vector<NamedTensor> named_tensors(const std::vector<TensorInfo>& tensors);

/// Gives `replica` the mean weights and statistics of a checkpoint. Throws Error where they differ in length.
void load_mean(const std::string& checkpoint, const Replica& replica);

}  // namespace halograd
