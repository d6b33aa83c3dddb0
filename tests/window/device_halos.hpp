#pragma once

#include "kernels/types.hpp"
#include "mpi/gpu_aware_mpi.hpp"

namespace halograd {

/// Whether halos may lie where kernels have their memory: an MPI that is not GPU-aware would read a device's as its
/// own.
inline bool device_halos_work() {
  return runs_on_host || mpi_says_gpu_aware();
}
constexpr const char* no_device_halos = "this MPI would read device memory as its own";

}  // namespace halograd
