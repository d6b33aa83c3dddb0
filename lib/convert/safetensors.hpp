#pragma once

#include <map>
#include <string>

#include "convert/state_dict.hpp"

namespace halograd {

/// The safetensors format: 8 bytes little-endian with the length of a JSON header, the header, which names each
/// tensor's type, shape and place, and the values. https://github.com/huggingface/safetensors
void write_safetensors(const std::string& path, const StateDict& state,
                       const std::map<std::string, std::string>& facts);

/// Tensors of type F32, F64 (rounded to float32) and I64. Throws Error naming the file and what is wrong in it: cut
/// short, header no JSON of this form, places outside the file, another type.
StateDict read_safetensors(const std::string& path);

}  // namespace halograd
