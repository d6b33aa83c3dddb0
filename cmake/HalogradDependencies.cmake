# Everything halograd is built on, found and never fetched; each refusal is one line that says what to do.

find_package(Threads REQUIRED)
find_package(Kokkos 3.4 CONFIG REQUIRED)
find_package(KokkosKernels CONFIG REQUIRED)
find_package(MPI 3.0 REQUIRED COMPONENTS CXX)
set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "halograd needs a parallel HDF5 (found a serial one: ${HDF5_C_INCLUDE_DIRS}); "
    "name its wrapper with -DHDF5_C_COMPILER_EXECUTABLE=<h5pcc>")
endif()
find_package(LAPACK REQUIRED)
find_package(ZLIB REQUIRED)
find_package(toml11 CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)

include(HalogradCheckRma)
