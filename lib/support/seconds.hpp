#pragma once

#include <chrono>

namespace halograd {

/// Seconds of the node's monotonic clock, from a fixed moment on.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace halograd
