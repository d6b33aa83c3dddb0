#!/usr/bin/env bash
# Installs what building and running halograd needs on Debian 12 or newer. A second call finds everything there.
#
# Usage: bash jobscripts/setup-debian.sh [--tests] [--openmpi]
#   --tests     also what only tests/run.sh needs
#   --openmpi   also Open MPI and its parallel HDF5, named in .deps/openmpi.cmake
#
# Packages come from apt, as root or through sudo. Where CMake finds no Kokkos with OpenMP, Kokkos and Kokkos Kernels
# are built into .deps/ of this checkout from the trilinos source package of the machine's own Debian mirror (Debian's
# binary package of Kokkos has no parallel backend). apt's configuration is left as it is. The script ends by writing
# .deps/debian.cmake, which names Debian's MPICH and its parallel HDF5 to CMake: cmake --preset openmp -C .deps/debian.cmake
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps
prefix=$deps/kokkos
stamp=$prefix/.complete

packages=(
  g++ cmake ninja-build git xz-utils
  mpich libmpich-dev libhdf5-mpich-dev hdf5-tools
  libtoml11-dev libcli11-dev libopenblas-dev zlib1g-dev libpng-dev libturbojpeg0-dev
  python3 python3-h5py python3-matplotlib
  dataset-fashion-mnist
)
test_packages=(
  libgtest-dev libbenchmark-dev clang-format clang-tidy shellcheck
  munge slurmctld slurmd slurm-client # a Slurm for tests/slurm
  python3-torch                       # the truth that tests/app/torch_step_test.py and convert_test.py hold it against
)

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# logged LOG COMMAND...: the command's output goes to .deps/LOG, whose end is shown when it fails.
logged() {
  local log=$deps/$1
  shift
  if ! "$@" >>"$log" 2>&1 </dev/null; then
    printf 'setup: failed: %s\nsetup: the last lines of %s:\n' "$*" "$log" >&2
    tail -n 25 "$log" >&2
    exit 1
  fi
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

install_packages() {
  local missing=() as_root=() start=$SECONDS
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]} > 0)) || return 0
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "neither root nor sudo; have these installed first: apt-get install --no-install-recommends ${missing[*]}"
    fi
  fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
  logged apt.log "${apt[@]}" update
  logged apt.log "${apt[@]}" install --no-install-recommends "${missing[@]}"
  say "packages installed in $((SECONDS - start)) s"
}

# Asks the build's own question: does CMake find a Kokkos and Kokkos Kernels that the openmp preset takes?
find_kokkos() {
  local probe
  probe=$(mktemp -d)
  cat >"$probe/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(probe CXX)
find_package(Threads REQUIRED)
set(HALOGRAD_BACKEND openmp)
include($root/cmake/HalogradKokkos.cmake)
file(WRITE found "Kokkos \${Kokkos_VERSION} in \${Kokkos_DIR}")
EOF
  cmake -G Ninja -S "$probe" -B "$probe/build" >"$deps/probe.log" 2>&1 || true
  cat "$probe/found" 2>/dev/null || true
  rm -rf "$probe"
}

# Writes a private copy, with deb-src for deb, of those of the machine's own sources that offer the mirror $1.
write_source_list() {
  local mirror=${1%/} file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -r $file ]] || continue
    grep -E '^[[:space:]]*deb[[:space:]]' "$file" | grep -F "$mirror" | sed -E 's/^[[:space:]]*deb[[:space:]]/deb-src /' || true
  done >"$deps/apt/sources/halograd.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] || continue
    awk -v mirror="$mirror" 'BEGIN { RS = ""; ORS = "\n\n" }
      index($0, mirror) { if (sub(/(^|\n)Types:[^\n]*/, "\nTypes: deb-src")) { sub(/^\n/, ""); print } }' "$file"
  done >"$deps/apt/sources/halograd.sources"
}

# Fetches the trilinos source package into .deps/apt with private lists; apt checks its signature and hashes.
fetch_trilinos() {
  local mirror
  rm -rf "$deps/apt"
  mkdir -p "$deps/apt/sources" "$deps/apt/lists/partial" "$deps/apt/cache/archives/partial"
  mirror=$(apt-cache madison libtrilinos-kokkos-dev 2>/dev/null | awk -F' *[|] *' 'NR == 1 { split($3, part, " "); print part[1] }')
  if [[ -z $mirror ]]; then  # no package lists here: take what the first source names
    mirror=$(sed -nE -e 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p' -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' \
      /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
  fi
  [[ -n $mirror ]] || die "no Debian mirror in /etc/apt; build Kokkos with OpenMP and Kokkos Kernels and set Kokkos_ROOT"
  write_source_list "$mirror"
  # The sandbox user of apt may not enter this checkout.
  local apt=(apt-get -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$deps/apt/sources"
    -o "Dir::State::Lists=$deps/apt/lists" -o "Dir::Cache=$deps/apt/cache" -o APT::Sandbox::User=root)
  logged kokkos.log "${apt[@]}" update
  (cd "$deps/apt" && logged kokkos.log "${apt[@]}" source --download-only --tar-only trilinos)
}

# build_package SOURCE OPTIONS...: configures, builds and installs a CMake project into .deps/kokkos.
build_package() {
  local source=$1
  shift
  logged kokkos.log cmake -G Ninja -Wno-dev -S "$source" -B "$source-build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
  logged kokkos.log cmake --build "$source-build" --target install
}

build_kokkos() {
  local start=$SECONDS tarball version
  : >"$deps/kokkos.log"
  say "fetching the trilinos source package, which holds Kokkos"
  fetch_trilinos
  tarball=$(find "$deps/apt" -maxdepth 1 -name 'trilinos_*.orig.tar.*' ! -name '*.asc' | head -n 1)
  [[ -n $tarball ]] || die "apt fetched no trilinos_*.orig.tar; see $deps/kokkos.log"
  rm -rf "$deps/source"
  mkdir -p "$deps/source"
  logged kokkos.log tar -xf "$tarball" -C "$deps/source" --strip-components=2 --wildcards \
    '*/packages/kokkos/*' '*/packages/kokkos-kernels/*'
  rm -rf "$deps/apt"
  version=$(sed -nE 's/^set\(Kokkos_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)\).*/\2/Ip' "$deps/source/kokkos/CMakeLists.txt" | paste -sd. -)
  say "building Kokkos $version with OpenMP, and Kokkos Kernels"
  build_package "$deps/source/kokkos" -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON
  build_package "$deps/source/kokkos-kernels" -DKokkos_ROOT="$prefix" -DKokkosKernels_ADD_DEFAULT_ETI=OFF
  rm -rf "$deps/source"
  printf 'Kokkos %s from %s\n' "$version" "$(basename "$tarball")" >"$stamp"
  say "Kokkos $version built in $((SECONDS - start)) s into $prefix"
}

# A Kokkos that the user names goes before the one built here.
provide_kokkos() {
  local found
  [[ -e $stamp ]] || rm -rf "$prefix"
  if [[ -e $stamp && -z ${Kokkos_ROOT:-}${CMAKE_PREFIX_PATH:-} ]]; then return 0; fi
  found=$(find_kokkos)
  if [[ -n $found && $found != *"$deps"* ]]; then
    say "using $found"
    use_own_kokkos=false
  elif [[ ! -e $stamp ]]; then
    build_kokkos
  fi
}

# write_cmake_choices MPI FILE: MPI is the ending that Debian gives to an MPI's programs.
write_cmake_choices() {
  local mpi=$1 file=$2
  {
    echo '# Written by jobscripts/setup-debian.sh: an initial cache for cmake -C.'
    echo "set(MPI_C_COMPILER /usr/bin/mpicc.$mpi CACHE FILEPATH \"\")"
    echo "set(MPI_CXX_COMPILER /usr/bin/mpicxx.$mpi CACHE FILEPATH \"\")"
    echo "set(MPIEXEC_EXECUTABLE /usr/bin/mpiexec.$mpi CACHE FILEPATH \"\")"
    echo "set(HDF5_C_COMPILER_EXECUTABLE /usr/bin/h5pcc.$mpi CACHE FILEPATH \"\")"
    echo 'set(Python3_EXECUTABLE /usr/bin/python3 CACHE FILEPATH "")'
    if $use_own_kokkos; then
      echo "set(Kokkos_ROOT \"$prefix\" CACHE PATH \"\")"
      echo "set(KokkosKernels_ROOT \"$prefix\" CACHE PATH \"\")"
    fi
  } >"$file"
}

openmpi=false
for option in "$@"; do
  case $option in
    --tests) packages+=("${test_packages[@]}") ;;
    --openmpi)
      packages+=(openmpi-bin libopenmpi-dev libhdf5-openmpi-dev)
      openmpi=true
      ;;
    *) die "unknown option $option; the options are --tests and --openmpi" ;;
  esac
done
command -v apt-get >/dev/null || die "no apt-get here; install what README.md lists, or use Spack (spack.yaml)"
mkdir -p "$deps"
exec 9>"$deps/lock"
flock 9 # two calls at once: the second waits, then finds everything there
use_own_kokkos=true
: >"$deps/apt.log"
install_packages
provide_kokkos
write_cmake_choices mpich "$deps/debian.cmake"
if $openmpi; then write_cmake_choices openmpi "$deps/openmpi.cmake"; fi
say "everything is there"
