#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// How many of the values are infinite or NaN; one pass over memory; fences.
long count_non_finite(const ExecutionSpace& exec, Vector<const float> values);

}  // namespace halograd
