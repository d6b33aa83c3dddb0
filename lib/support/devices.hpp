#pragma once

#include <string>
#include <vector>

namespace halograd {

/// The accelerators that a launcher or user lets this process see, by the names they have in CUDA_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES; empty where nobody has limited them.
std::vector<std::string> visible_devices();

}  // namespace halograd
