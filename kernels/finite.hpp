#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// How many of the values are infinite or NaN; one pass over memory; fences.
template <class T>
long count_non_finite(const ExecutionSpace& exec, Vector<const T> values);

}  // namespace halograd
