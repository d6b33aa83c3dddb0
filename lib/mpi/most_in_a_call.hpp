#pragma once

#include <cstddef>

namespace halograd {

/// Values that one call of MPI takes at most here: its counts are int. Longer ranges take several calls.
constexpr std::size_t most_in_a_call = std::size_t{1} << 28;

}  // namespace halograd
