#pragma once

#include <map>
#include <string>

#include "convert/state_dict.hpp"

namespace halograd {

/// The network as an ONNX model (operator set 13) in inference: input `images` (batch, C, spatial...), already
/// normalised, output `logits` (batch, classes). `state` is the network's own (to_state_dict). Throws Error naming a
/// layer whose type is not known here, and where the model would have more than protobuf's 2 GiB.
std::string onnx_model(const NetworkConfig& config, const Shape& input, const StateDict& state,
                       const std::map<std::string, std::string>& facts);

}  // namespace halograd
