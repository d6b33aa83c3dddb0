#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace halograd {

/// The resolved run file: every key with its value; parse_config of it gives an equal RunConfig.
std::string to_toml(const RunConfig& config);

/// A key of a run file with its section, and its value as TOML: "averager.every", "4".
struct KeyValue {
  std::string key, value;
};

/// The keys whose values in `config` differ from those in `other`, but for the list of layers.
std::vector<KeyValue> different_keys(const RunConfig& config, const RunConfig& other);

}  // namespace halograd
