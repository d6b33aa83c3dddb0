#pragma once

#include <string>

#include "kernels/accelerator.hpp"

namespace halograd {

/// Whether the MPI library says that it reads and writes the memory of a maker's devices, those that kernels run on:
/// asked by MPICH's MPIX_GPU_query_support, Open MPI's MPIX_Query_cuda_support and MPIX_Query_rocm_support, and MPI
/// 4.1's info key mpi_memory_alloc_kinds, where the library has them. False for no maker, as on builds for cores, and
/// where it does not tell.
bool mpi_says_gpu_aware(AcceleratorMaker maker = accelerator_maker());

/// Whether a list of MPI 4.1's memory kinds ("mpi,system,cuda:device") has `kind`, for memory of devices at least.
bool has_memory_kind(const std::string& kinds, const std::string& kind);

}  // namespace halograd
