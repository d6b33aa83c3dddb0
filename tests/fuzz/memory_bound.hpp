#pragma once

#include <cstdint>

namespace halograd::fuzz {

/// Adds to the live memory of the input that is being read, from any thread, what was allocated or, below 0, freed.
/// Ends the process where an input has more than its bound (targets.cpp).
void count_memory(std::int64_t bytes);

}  // namespace halograd::fuzz
