#pragma once

#include <optional>
#include <string>

#include "config/config.hpp"

namespace halograd {

/// Keys of [averager], [topology] and [comm] that do not go together.
struct AveragerConflict {
  std::string key;      ///< that one could change
  std::string message;  ///< what is wrong
  std::string hint;
  std::string section = "averager";  ///< the key's
};

/// The first one found.
std::optional<AveragerConflict> averager_conflict(const RunConfig& config);

}  // namespace halograd
