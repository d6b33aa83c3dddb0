# Finds the Kokkos and Kokkos Kernels that halograd can use, or refuses. Stands alone, so that jobscripts/setup-debian.sh can ask the same question.
# Kokkos' own version file takes no other major version than the one asked for, hence the comparison by hand.
include(${CMAKE_CURRENT_LIST_DIR}/HalogradRefuse.cmake)

# PATHS come last: what jobscripts/setup-debian.sh built serves where nothing else is named or installed.
find_package(Kokkos CONFIG QUIET PATHS ${CMAKE_CURRENT_LIST_DIR}/../.deps/kokkos)
if(NOT Kokkos_FOUND)
  halograd_refuse("no Kokkos found; name one with -DKokkos_ROOT=<prefix>, or let jobscripts/setup-debian.sh build one")
endif()
if(Kokkos_VERSION VERSION_LESS 3.4)
  halograd_refuse("needs Kokkos 3.4 or newer, found ${Kokkos_VERSION} in ${Kokkos_DIR}")
endif()

set(halograd_parallel_backends ${Kokkos_DEVICES})
list(FILTER halograd_parallel_backends EXCLUDE REGEX "^(SERIAL|Serial)$")
if(NOT halograd_parallel_backends)
  halograd_refuse("needs a Kokkos with a parallel backend, found only ${Kokkos_DEVICES} in ${Kokkos_DIR}")
endif()
string(TOUPPER "${HALOGRAD_BACKEND}" halograd_wanted_backend)
string(TOUPPER "${Kokkos_DEVICES}" halograd_found_backends)
if(halograd_wanted_backend AND NOT halograd_wanted_backend IN_LIST halograd_found_backends)
  halograd_refuse("HALOGRAD_BACKEND is ${HALOGRAD_BACKEND}, but the Kokkos in ${Kokkos_DIR} has only ${Kokkos_DEVICES}; "
    "name another with -DKokkos_ROOT=<prefix>")
endif()

# Kernels are Kokkos alone; what the program asks of a device beside them it asks a runtime that it must know.
set(halograd_unknown_backends ${halograd_parallel_backends})
list(FILTER halograd_unknown_backends EXCLUDE REGEX "^(OPENMP|OpenMP|THREADS|Threads|PTHREAD|Pthread|HPX|CUDA|Cuda|HIP)$")
if(halograd_unknown_backends)
  halograd_refuse("knows no device backend ${halograd_unknown_backends}, which the Kokkos in ${Kokkos_DIR} has: computes on "
    "cores, CUDA and HIP; CONTRIBUTING.md, \"Another device backend\", lists what one has to provide")
endif()

# Hopper's matrix instructions are sm_90a's alone; Kokkos asks for sm_90, and nvcc_wrapper takes no second -arch.
if(TARGET Kokkos::kokkoscore)
  get_target_property(halograd_kokkos_options Kokkos::kokkoscore INTERFACE_COMPILE_OPTIONS)
  string(REGEX REPLACE "-arch=sm_90([^a]|$)" "-arch=sm_90a\\1" halograd_kokkos_options "${halograd_kokkos_options}")
  if(halograd_kokkos_options)
    set_property(TARGET Kokkos::kokkoscore PROPERTY INTERFACE_COMPILE_OPTIONS "${halograd_kokkos_options}")
  endif()
endif()

# Found for everybody unless it is declined.
option(HALOGRAD_KOKKOS_KERNELS "Sparse products of the simulation by Kokkos Kernels, and comparisons with it in the benchmarks" ON)
if(HALOGRAD_KOKKOS_KERNELS)
  find_package(KokkosKernels CONFIG QUIET PATHS ${CMAKE_CURRENT_LIST_DIR}/../.deps/kokkos)
  if(NOT KokkosKernels_FOUND)
    halograd_refuse("no Kokkos Kernels found for the Kokkos in ${Kokkos_DIR}; name it with -DKokkosKernels_ROOT=<prefix>, "
      "or do without: -DHALOGRAD_KOKKOS_KERNELS=OFF")
  endif()
endif()
