# Everything halograd is built on, found and never fetched; each refusal is one line that says what to do.
include(HalogradRefuse)

# halograd_need(package hint arguments...): find_package whose failure is our one line instead of CMake's many.
macro(halograd_need package hint)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    halograd_refuse("${package} not found; " "${hint}")
  endif()
endmacro()

halograd_need(Threads "a POSIX thread library is needed")
include(HalogradKokkos)

halograd_need(MPI "name its C++ wrapper with -DMPI_CXX_COMPILER=<mpicxx>" COMPONENTS C CXX)
include(HalogradCheckRma)

# By its wrapper, as -DHDF5_C_COMPILER_EXECUTABLE names it: CMake would first look for a package of HDF5's own, whichever
# comes first where there are several, whose targets projects that link the installed library do not know. CMake then
# makes a target of a library named hdf5, which is hdf5_mpich to Debian, and fails without this; nothing uses the target.
set(HDF5_NO_FIND_PACKAGE_CONFIG_FILE ON)
set(HDF5_C_LIBRARY hdf5)
set(HDF5_PREFER_PARALLEL ON)
halograd_need(HDF5 "name its wrapper with -DHDF5_C_COMPILER_EXECUTABLE=<h5pcc>" COMPONENTS C)
# FindHDF5 asks the wrapper, and does not know how one built by CMake says it ("Parallel HDF5: ON").
foreach(folder IN LISTS HDF5_C_INCLUDE_DIRS)
  if(NOT HDF5_IS_PARALLEL AND EXISTS "${folder}/H5pubconf.h")
    file(STRINGS "${folder}/H5pubconf.h" HDF5_IS_PARALLEL REGEX "define H5_HAVE_PARALLEL 1")
  endif()
endforeach()
if(NOT HDF5_IS_PARALLEL)
  halograd_refuse("needs a parallel HDF5, found a serial one (${HDF5_C_INCLUDE_DIRS}); "
    "name a parallel one's wrapper with -DHDF5_C_COMPILER_EXECUTABLE=<h5pcc>")
endif()
if(HDF5_VERSION VERSION_LESS 1.10.5)
  halograd_refuse("needs HDF5 1.10.5 or newer, found ${HDF5_VERSION} (${HDF5_C_INCLUDE_DIRS})")
endif()

halograd_need(LAPACK "install OpenBLAS or another LAPACK, or choose one with -DBLA_VENDOR=<vendor>")
halograd_need(ZLIB "install its development files")

# Image files, for halograd import alone: without both libraries the program says so when it meets one.
set(HALOGRAD_IMAGES AUTO CACHE STRING "Read PNG and JPEG files (libpng, libjpeg-turbo): ON, OFF, or AUTO where both are there")
set(HALOGRAD_HAS_IMAGES OFF)
if(HALOGRAD_IMAGES)
  find_package(PNG 1.6 QUIET)
  find_path(TurboJPEG_INCLUDE_DIR turbojpeg.h)
  find_library(TurboJPEG_LIBRARY turbojpeg)
  mark_as_advanced(TurboJPEG_INCLUDE_DIR TurboJPEG_LIBRARY)
  if(PNG_FOUND AND TurboJPEG_INCLUDE_DIR AND TurboJPEG_LIBRARY)
    set(HALOGRAD_HAS_IMAGES ON)
  elseif(NOT HALOGRAD_IMAGES STREQUAL "AUTO")
    halograd_refuse("HALOGRAD_IMAGES needs libpng and libjpeg-turbo (TurboJPEG); install their development files, "
      "or configure with -DHALOGRAD_IMAGES=OFF")
  endif()
endif()

halograd_need(toml11 "name it with -Dtoml11_ROOT=<prefix>" CONFIG)
halograd_need(CLI11 "name it with -DCLI11_ROOT=<prefix>" CONFIG)
halograd_need(nlohmann_json "name it with -Dnlohmann_json_ROOT=<prefix>" CONFIG)
if(nlohmann_json_VERSION VERSION_LESS 3.10)
  halograd_refuse("needs nlohmann_json 3.10 or newer, found ${nlohmann_json_VERSION} (${nlohmann_json_DIR})")
endif()
