#pragma once

#include <sched.h>

namespace halograd {

/// A set of a node's cores. With a name of its own: nvcc 13 breaks down over a vector of C's nameless struct.
struct Cores {
  cpu_set_t set;
  [[nodiscard]] int count() const { return CPU_COUNT(&set); }
};

/// The cores that this process may use, also where OpenMP has bound the first thread to one of them (OMP_PROC_BIND).
/// None where the system does not tell.
Cores usable_cores();

}  // namespace halograd
