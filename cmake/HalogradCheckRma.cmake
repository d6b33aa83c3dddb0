# Neighbour averaging stores into windows that the owner reads with plain loads: that is MPI's unified memory model.
# The header must offer it here; what the library grants is checked again when a window is made.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
set(CMAKE_REQUIRED_QUIET ON)
check_cxx_source_compiles("
#include <mpi.h>
#if MPI_VERSION < 3
#error MPI 3
#endif
int main() { int model = MPI_WIN_UNIFIED; MPI_Win window = MPI_WIN_NULL; MPI_Aint bytes = 0; int unit = 0; void* base = nullptr;
  if (model < 0) MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  return 0; }
" HALOGRAD_MPI_HAS_UNIFIED_RMA)
unset(CMAKE_REQUIRED_QUIET)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT HALOGRAD_MPI_HAS_UNIFIED_RMA)
  halograd_refuse("needs an MPI with MPI-3 one-sided communication and unified memory windows, "
    "which the one of ${MPI_CXX_COMPILER} lacks; name another with -DMPI_CXX_COMPILER=<mpicxx>")
endif()
