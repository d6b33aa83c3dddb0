#pragma once

#include <Kokkos_Core.hpp>

#include <string>

// nvcc from 12.9 on lays out [[no_unique_address]] members on the device otherwise than g++ does on the host, and
// Kokkos before 5.0 has them in its views (kokkos/kokkos#8615): kernels would find wrong arguments.
#if defined(KOKKOS_BASIC_VIEW_HPP) && !defined(KOKKOS_ENABLE_IMPL_VIEW_LEGACY) && defined(__CUDACC_VER_MAJOR__) && \
    KOKKOS_VERSION < 50000 && defined(MDSPAN_IMPL_USE_ATTRIBUTE_NO_UNIQUE_ADDRESS) &&                              \
    !defined(MDSPAN_IMPL_USE_FAKE_ATTRIBUTE_NO_UNIQUE_ADDRESS)
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1209
#error \
    "Kokkos before 5.0 passes views wrongly with nvcc 12.9 and newer: take 5.0, or -DKokkos_ENABLE_IMPL_VIEW_LEGACY=ON"
#endif
#endif

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

/// Unrolls a loop of constant length on devices, where arrays stay in registers only then.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define HALOGRAD_UNROLL _Pragma("unroll")
#else
#define HALOGRAD_UNROLL
#endif

namespace halograd {

/// Kokkos' mathematical functions, under one name for every version: Kokkos promoted them out of Experimental in 3.7.
#if KOKKOS_VERSION >= 30700
namespace math = Kokkos;
#else
namespace math = Kokkos::Experimental;
#endif

/// Kokkos::initialize with a number of host threads and, on accelerators, a device (-1: Kokkos chooses).
inline void start_kokkos(int threads, int device) {
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  settings.set_num_threads(threads).set_disable_warnings(true);
  if (device >= 0) settings.set_device_id(device);
#else
  Kokkos::InitArguments settings;
  settings.num_threads = threads;
  settings.disable_warnings = true;
  settings.device_id = device;
#endif
  Kokkos::initialize(settings);
}

/// The number of an accelerator's execution space among the devices that this process sees; -1 on cores.
template <class Space>
int device_number(const Space& space) {
  if constexpr (requires { space.cuda_device(); }) {
    return space.cuda_device();
  } else if constexpr (requires { space.hip_device(); }) {
    return space.hip_device();
  } else {
    return -1;
  }
}

/// Whether a launch that a device has recorded can be repeated: kernels get their arguments by value. Older versions
/// pass them through buffers of their own, on some devices, or were not looked at.
constexpr bool launches_repeat = KOKKOS_VERSION >= 40600;

/// "3.4.1"
inline std::string kokkos_version() {
  return std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) + "." +
         std::to_string(KOKKOS_VERSION % 100);
}

}  // namespace halograd
