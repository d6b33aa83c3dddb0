#pragma once

#include <string>
#include <vector>

namespace halograd {

/// The accelerators that a launcher or user lets this process see, by the names they have in CUDA_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES; empty where nobody has limited them.
std::vector<std::string> visible_devices();

/// The accelerator for the n-th rank of a node, as the process numbers those it sees: a launcher may have left it one
/// of its own, or all of the node's.
int device_of(int node_rank);

}  // namespace halograd
