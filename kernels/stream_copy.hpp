#pragma once

#include "kernels/types.hpp"

namespace halograd {

/// to = from, both (n) in host memory, past the caches where the processor can: for what another process reads, once,
/// and too much to find it there. Saves the fetch of every line that is written. What is stored after it is seen after
/// it.
void stream_copy(const Kokkos::DefaultHostExecutionSpace& exec, HostVector<const float> from, HostVector<float> to);

}  // namespace halograd
