#!/usr/bin/env bash
# Configuring on something that halograd cannot use ends in one line that says what and what to do.
# Usage: refusals.sh SOURCE WORK_FOLDER CMAKE_OPTIONS...   (the options with which configuring succeeds)
set -euo pipefail

source=$1
work=$2
shift 2
options=("$@")
rm -rf "$work"
mkdir -p "$work"
failures=0

# Later calls start from a copy of the first success: only what -U removes is searched for again.
configure() {
  rm -rf "$work/build"
  if [[ -d $work/configured ]]; then
    cp -a "$work/configured" "$work/build"
  fi
  cmake -S "$source" -B "$work/build" "${options[@]}" -DHALOGRAD_BUILD_TESTS=OFF "$@" >"$work/output" 2>&1
}

# refuses LINE OPTIONS...: LINE is a regular expression for the whole of the one error.
refuses() {
  local line=$1
  shift
  if configure "$@"; then
    echo "FAILED: configured in spite of $*"
  elif [[ $(grep -c '^CMake Error' "$work/output") != 1 ]]; then
    echo "FAILED: not one error for $*"
  elif ! grep -qE "^ +halograd: $line\$" "$work/output"; then
    echo "FAILED: no line '$line' for $*"
  else
    echo "ok: $(grep -E "^ +halograd: " "$work/output")"
    return 0
  fi
  cat "$work/output"
  failures=$((failures + 1))
}

# A Kokkos package of the given version and devices that holds nothing.
fake_kokkos() {
  local folder=$work/kokkos-$1-${2%%;*}
  mkdir -p "$folder"
  printf 'set(Kokkos_DEVICES "%s")\n' "$2" >"$folder/KokkosConfig.cmake"
  printf 'set(PACKAGE_VERSION %s)\n' "$1" >"$folder/KokkosConfigVersion.cmake"
  echo "$folder"
}

refuses 'no Kokkos found; .*' -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON
if ! configure; then
  cat "$work/output"
  echo "FAILED: does not configure at all"
  exit 1
fi
mv "$work/build" "$work/configured"

refuses 'needs Kokkos 3\.4 or newer, found 3\.2\.1 in .*' -DKokkos_DIR="$(fake_kokkos 3.2.1 'OPENMP;SERIAL')"
refuses 'needs a Kokkos with a parallel backend, found only SERIAL in .*' -DKokkos_DIR="$(fake_kokkos 4.2.0 SERIAL)"
refuses 'knows no device backend SYCL, which the Kokkos in .* has: computes on cores, CUDA and HIP; .*' \
  -DKokkos_DIR="$(fake_kokkos 4.2.0 'OPENMP;SERIAL;SYCL')"
refuses 'HALOGRAD_BACKEND is hip, but .* has only OPENMP;SERIAL; .*' -DHALOGRAD_BACKEND=hip \
  -DKokkos_DIR="$(fake_kokkos 5.0.0 'OPENMP;SERIAL')"

# The header of an MPI from before one-sided communication had a memory model.
mkdir -p "$work/mpi2"
printf '#include_next <mpi.h>\n#undef MPI_VERSION\n#define MPI_VERSION 2\n' >"$work/mpi2/mpi.h"
refuses 'needs an MPI with MPI-3 one-sided communication .*' -UHALOGRAD_MPI_HAS_UNIFIED_RMA -DCMAKE_CXX_FLAGS="-I$work/mpi2"

# What a serial HDF5's wrapper shows: its headers say nothing of MPI.
mkdir -p "$work/hdf5"
printf '#define H5_VERSION "1.10.8"\n' >"$work/hdf5/H5pubconf.h"
touch "$work/hdf5/hdf5.h" "$work/hdf5/libhdf5.so"
printf '#!/bin/sh\necho "cc -I%s -L%s -lhdf5"\necho "HDF5 Version: 1.10.8"\n' "$work/hdf5" "$work/hdf5" >"$work/h5cc"
chmod +x "$work/h5cc"
refuses 'needs a parallel HDF5, found a serial one .*' -U'HDF5_*' -DHDF5_C_COMPILER_EXECUTABLE="$work/h5cc"

# What is taken: a parallel HDF5 whose header alone says so, as where CMake has built it, and a LAPACK that the compiler adds.
echo '#define H5_HAVE_PARALLEL 1' >>"$work/hdf5/H5pubconf.h"
printf 'set(LAPACK_FOUND ON)\nadd_library(LAPACK::LAPACK INTERFACE IMPORTED)\n' >"$work/FindLAPACK.cmake"
if ! configure -U'HDF5_*' -U'LAPACK_*' -DHDF5_C_COMPILER_EXECUTABLE="$work/h5cc" -DCMAKE_MODULE_PATH="$work" ||
  ! grep -qE '^-- +HDF5 +1\.10\.8, parallel ' "$work/output" || ! grep -qE '^-- +LAPACK +by the compiler$' "$work/output"; then
  cat "$work/output"
  echo "FAILED: not taken: an HDF5 built by CMake, a compiler with LAPACK"
  failures=$((failures + 1))
fi

refuses 'toml11 not found; .*' -DCMAKE_DISABLE_FIND_PACKAGE_toml11=ON
refuses 'nlohmann_json not found; .*' -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON

exit $((failures > 0))
