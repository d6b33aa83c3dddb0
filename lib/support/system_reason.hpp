#pragma once

#include <cerrno>
#include <system_error>

#include "kernels/error.hpp"

namespace halograd {

/// Why a call of the system failed, by default the last one: what errno says.
inline SystemReason system_reason(int error = errno) {
  return {std::generic_category().message(error), machine_has_failed(error)};
}

}  // namespace halograd
