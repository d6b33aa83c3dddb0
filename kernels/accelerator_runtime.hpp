#pragma once

#include <string>

#include "kernels/error.hpp"
#include "kernels/types.hpp"

/// The runtime of the accelerators that this build computes on, for kernels/ alone: HALOGRAD_RUNTIME(Malloc) is
/// cudaMalloc or hipMalloc. Not defined on builds for cores.
#if defined(KOKKOS_ENABLE_CUDA)
#define HALOGRAD_RUNTIME(name) cuda##name
#elif defined(KOKKOS_ENABLE_HIP)
#define HALOGRAD_RUNTIME(name) hip##name
#else
static_assert(halograd::runs_on_host,
              "halograd knows the runtimes of CUDA and HIP alone: CONTRIBUTING.md, \"Another device backend\"");
#endif

#if defined(HALOGRAD_RUNTIME)
namespace halograd {

/// Throws Error with the runtime's own words where a call of it failed.
template <class Status>
void require_success(Status status, const std::string& what) {
  HALOGRAD_REQUIRE(status == HALOGRAD_RUNTIME(Success), what, ": ", HALOGRAD_RUNTIME(GetErrorString)(status));
}

}  // namespace halograd
#endif
