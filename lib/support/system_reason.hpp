#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace halograd {

/// Why the system's last call failed: what errno says, in words.
inline std::string system_reason() {
  return std::generic_category().message(errno);
}

}  // namespace halograd
