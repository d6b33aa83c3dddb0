#pragma once

#include <string>

#include "config/config.hpp"

namespace halograd {

/// The resolved run file: every key with its value; parse_config of it gives an equal RunConfig.
std::string to_toml(const RunConfig& config);

}  // namespace halograd
