#include "mpi/gpu_aware_mpi.hpp"

#include <mpi.h>

#include <sstream>

#if __has_include(<mpi-ext.h>)  // of Open MPI and MVAPICH
#include <mpi-ext.h>
#endif

namespace halograd {
namespace {

/// Memory kinds of MPI_COMM_WORLD; empty where the library does not say.
std::string memory_kinds() {
  std::string kinds;
#if MPI_VERSION >= 4
  MPI_Info info = MPI_INFO_NULL;
  MPI_Comm_get_info(MPI_COMM_WORLD, &info);
  int length = 0, found = 0;
  char none = 0;  // MPICH refuses a null pointer even for no characters
  MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, &none, &found);
  if (found != 0 && length > 0) {
    kinds.resize(static_cast<std::size_t>(length));
    MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, kinds.data(), &found);
    kinds.pop_back();  // the terminating zero
  }
  MPI_Info_free(&info);
#endif
  return kinds;
}

#if defined(MPIX_GPU_SUPPORT_CUDA)
bool says_yes(int type) {
  int supported = 0;
  return MPIX_GPU_query_support(type, &supported) == MPI_SUCCESS && supported != 0;
}
#endif

bool says_cuda() {
#if defined(MPIX_GPU_SUPPORT_CUDA)
  if (says_yes(MPIX_GPU_SUPPORT_CUDA)) return true;
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
  if (MPIX_Query_cuda_support() != 0) return true;
#endif
  return has_memory_kind(memory_kinds(), "cuda");
}

bool says_rocm() {
#if defined(MPIX_GPU_SUPPORT_HIP)
  if (says_yes(MPIX_GPU_SUPPORT_HIP)) return true;
#elif defined(MPIX_ROCM_AWARE_SUPPORT)
  if (MPIX_Query_rocm_support() != 0) return true;
#endif
  return has_memory_kind(memory_kinds(), "rocm");
}

}  // namespace

bool mpi_says_gpu_aware(AcceleratorMaker maker) {
  switch (maker) {
    case AcceleratorMaker::nvidia:
      return says_cuda();
    case AcceleratorMaker::amd:
      return says_rocm();
    case AcceleratorMaker::none:
      break;
  }
  return false;
}

bool has_memory_kind(const std::string& kinds, const std::string& kind) {
  std::istringstream list(kinds);
  for (std::string item; std::getline(list, item, ',');) {
    if (item == kind || item == kind + ":device") return true;
  }
  return false;
}

}  // namespace halograd
