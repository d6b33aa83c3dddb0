#pragma once

#include <cstdint>
#include <string>

#include "nn/layer.hpp"

namespace halograd {

/// The random key of a tensor: its initial values do not depend on which other layers there are.
std::uint64_t tensor_key(std::uint64_t seed, const std::string& layer, const std::string& name);

/// Fills `count` values: the constant, or normal with mean 0 and variance 2 / fan_in (He et al., 2015).
void initialise(const Initial& initial, std::uint64_t key, float* values, std::size_t count);

}  // namespace halograd
