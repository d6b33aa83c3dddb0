#pragma once

#include <Kokkos_Core.hpp>

/// Says that the iterations of the next loop touch disjoint memory, so that it vectorises although its pointers may be
/// equal.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define HALOGRAD_IVDEP
#elif defined(__clang__)
#define HALOGRAD_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define HALOGRAD_IVDEP _Pragma("GCC ivdep")
#else
#define HALOGRAD_IVDEP
#endif

namespace halograd {

/// Kokkos' mathematical functions, under one name for every version: Kokkos promoted them out of Experimental in 3.7.
#if KOKKOS_VERSION >= 30700
namespace math = Kokkos;
#else
namespace math = Kokkos::Experimental;
#endif

}  // namespace halograd
