#!/usr/bin/env bash
# Installs what building and running halograd needs on Debian 12 or newer. A second call finds everything there.
#
# Usage: bash jobscripts/setup-debian.sh [--tests] [--mpich5] [--openmpi] [--clang] [--hip[=ARCHITECTURE]]
#   --tests     also what only tests/run.sh needs
#   --mpich5    also MPICH 5 from PyPI, in .deps/mpich5, for the tests named mpich5
#   --openmpi   also Open MPI and its parallel HDF5, named in .deps/openmpi.cmake
#   --clang     also clang and a Kokkos that it compiles, named in .deps/clang.cmake
#   --hip       also hipcc and a Kokkos for AMD devices of that architecture (gfx90a), named in .deps/hip.cmake
#   --mirror    only prints the mirror that this machine takes Debian's packages from
#
# Packages come from apt, as root or through sudo, libkokkos-dev among them where the release has it. Where CMake finds
# no Kokkos with OpenMP, Kokkos and Kokkos Kernels are built into .deps/ of this checkout, once, from the trilinos source
# package of the machine's own Debian mirror. apt's configuration is left as it is. The script ends by writing
# .deps/debian.cmake, which names Debian's MPICH and its parallel HDF5 to CMake; without --tests the program alone can be built:
#   cmake --preset openmp -C .deps/debian.cmake -DHALOGRAD_BUILD_TESTS=OFF
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps
prefix=$deps/kokkos
mended=$deps/kokkos-debian
hip_prefix=$deps/kokkos-hip
clang_prefix=$deps/kokkos-clang

packages=(
  g++ cmake ninja-build git xz-utils
  mpich libmpich-dev libhdf5-mpich-dev hdf5-tools
  libtoml11-dev libcli11-dev nlohmann-json3-dev libopenblas-dev zlib1g-dev libpng-dev libturbojpeg0-dev
  python3 python3-h5py python3-matplotlib
  dataset-fashion-mnist
)
test_packages=(
  libgtest-dev libbenchmark-dev clang-format clang-tidy shellcheck
  clang libclang-rt-dev libomp-dev    # libFuzzer for tests/fuzz
  munge slurmctld slurmd slurm-client # a Slurm for tests/slurm
  iproute2                            # hosts for tests/network
  python3-torch                       # the truth that tests/app/torch_step.py and convert_test.py hold it against
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

# What not every release has.
optional_packages() {
  if apt-cache show --no-all-versions libkokkos-dev >/dev/null 2>&1; then echo libkokkos-dev; fi
}

missing_packages() {
  local package
  for package in "${packages[@]}" $(optional_packages); do
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
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
  logged apt.log "${apt[@]}" update
  mapfile -t missing < <(missing_packages) # the update may have brought optional ones
  say "installing ${#missing[@]} packages: ${missing[*]}"
  logged apt.log "${apt[@]}" install --no-install-recommends "${missing[@]}"
  say "packages installed in $((SECONDS - start)) s"
}

# find_kokkos KERNELS [OPTION]: asks the build's own question: does CMake find a Kokkos that the openmp preset takes, with
# Kokkos Kernels (ON) or without (OFF)? What was built into .deps does not count.
find_kokkos() {
  local probe
  probe=$(mktemp -d)
  cat >"$probe/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.22)
project(probe CXX)
find_package(Threads REQUIRED)
set(HALOGRAD_BACKEND openmp)
include("$root/cmake/HalogradKokkos.cmake")
file(WRITE found "Kokkos \${Kokkos_VERSION} in \${Kokkos_DIR}")
EOF
  if cmake -G Ninja -S "$probe" -B "$probe/build" -DHALOGRAD_KOKKOS_KERNELS="$1" "${@:2}" >"$deps/probe.log" 2>&1; then
    grep -vF "$prefix/" "$probe/found" || true
  fi
  rm -rf "$probe"
}

# The CMake files of Debian's libkokkos-dev 5.2 name archives that the package does not hold, so that CMake refuses it. A
# copy of these files names empty ones instead: Kokkos' algorithms and SIMD types are headers only.
mend_packaged_kokkos() {
  local package archive
  package=$(find /usr/lib -maxdepth 3 -path '*/cmake/Kokkos')
  rm -rf "$mended"
  [[ -e $package/KokkosTargets.cmake ]] || return 1
  mkdir -p "$mended/lib/cmake"
  cp -r "$package" "$mended/lib/cmake/"
  sed -i "s|\${_IMPORT_PREFIX}/|/usr/|" "$mended"/lib/cmake/Kokkos/*.cmake
  while read -r archive; do
    [[ ! -e $archive ]] || continue
    ar rc "$mended/lib/${archive##*/}"
    sed -i "s|$archive|$mended/lib/${archive##*/}|" "$mended"/lib/cmake/Kokkos/*.cmake
    say "libkokkos-dev lacks $archive; an empty one in .deps takes its place"
  done < <(grep -oh '/usr/lib/[^"]*\.a' "$mended"/lib/cmake/Kokkos/KokkosTargets-*.cmake | sort -u)
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

# The mirror that this machine takes Debian's packages from.
debian_mirror() {
  local mirror
  mirror=$(apt-cache madison libtrilinos-kokkos-dev 2>/dev/null | awk -F' *[|] *' 'NR == 1 { split($3, part, " "); print part[1] }')
  if [[ -z $mirror ]]; then # no package lists here: take what the first source names
    mirror=$(sed -nE -e 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p' -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' \
      /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
  fi
  [[ -n $mirror ]] || die "no Debian mirror in /etc/apt"
  printf '%s\n' "$mirror"
}

# Downloads the trilinos source package into .deps/apt with private lists; apt checks its signature and hashes.
download_trilinos() {
  local mirror
  rm -rf "$deps/apt"
  mkdir -p "$deps/apt/sources" "$deps/apt/lists/partial" "$deps/apt/cache/archives/partial"
  mirror=$(debian_mirror) || die "build Kokkos with OpenMP and Kokkos Kernels yourself, and set Kokkos_ROOT"
  write_source_list "$mirror"
  # The sandbox user of apt may not enter this checkout.
  local apt=(apt-get -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$deps/apt/sources"
    -o "Dir::State::Lists=$deps/apt/lists" -o "Dir::Cache=$deps/apt/cache" -o APT::Sandbox::User=root)
  logged kokkos.log "${apt[@]}" update
  (cd "$deps/apt" && logged kokkos.log "${apt[@]}" source --download-only --tar-only trilinos)
}

# Puts the sources of Kokkos and Kokkos Kernels into .deps/source, once.
fetch_sources() {
  local tarball
  if [[ ! -e $deps/source/.complete ]]; then
    : >"$deps/kokkos.log"
    say "fetching the trilinos source package, which holds Kokkos"
    download_trilinos
    tarball=$(find "$deps/apt" -maxdepth 1 -name 'trilinos_*.orig.tar.*' ! -name '*.asc' | head -n 1)
    [[ -n $tarball ]] || die "apt fetched no trilinos_*.orig.tar; see $deps/kokkos.log"
    rm -rf "$deps/source"
    mkdir -p "$deps/source"
    logged kokkos.log tar -xf "$tarball" -C "$deps/source" --strip-components=2 --wildcards \
      '*/packages/kokkos/*' '*/packages/kokkos-kernels/*'
    rm -rf "$deps/apt"
    touch "$deps/source/.complete"
  fi
  kokkos_version=$(sed -nE 's/^set\(Kokkos_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)\).*/\2/Ip' "$deps/source/kokkos/CMakeLists.txt" | paste -sd. -)
}

# build_package PREFIX SOURCE OPTIONS...: configures, builds and installs a CMake project. Kokkos 3.4 uses uint32_t without
# including <cstdint>, which the standard library of g++ 13 and newer no longer does for it.
build_package() {
  local into=$1 source=$deps/source/$2 build
  shift 2
  build=$source-build-$(basename "$into")
  logged kokkos.log cmake -G Ninja -Wno-dev -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$into" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_CXX_FLAGS="-include cstdint" -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
  logged kokkos.log cmake --build "$build" --target install
}

build_openmp_kokkos() {
  local start
  fetch_sources
  start=$SECONDS
  say "building Kokkos $kokkos_version with OpenMP, and Kokkos Kernels; $deps/probe.log says why none was found"
  build_package "$prefix" kokkos -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON
  build_package "$prefix" kokkos-kernels -DKokkos_ROOT="$prefix" -DKokkosKernels_ADD_DEFAULT_ETI=OFF
  complete "$prefix" "$start"
}

build_hip_kokkos() {
  local start architectures=$deps/source/kokkos/cmake/kokkos_arch.cmake
  fetch_sources
  start=$SECONDS
  # Kokkos 3.4 knows no device after gfx908; architectures differ in nothing else to it.
  [[ -e $architectures.debian ]] || cp "$architectures" "$architectures.debian"
  sed "s/gfx908/$hip_architecture/" "$architectures.debian" >"$architectures"
  say "building Kokkos $kokkos_version with HIP for $hip_architecture"
  build_package "$hip_prefix" kokkos -DCMAKE_CXX_COMPILER=hipcc -DKokkos_ENABLE_HIP=ON -DKokkos_ENABLE_SERIAL=ON \
    -DKokkos_ARCH_VEGA908=ON
  complete "$hip_prefix" "$start" "$hip_architecture"
}

# clang's OpenMP has a library of its own (libomp), beside which that of g++ (libgomp) cannot run: clang compiles Kokkos too.
build_clang_kokkos() {
  local start
  fetch_sources
  start=$SECONDS
  say "building Kokkos $kokkos_version with OpenMP by clang"
  build_package "$clang_prefix" kokkos -DCMAKE_CXX_COMPILER=clang++ -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON
  complete "$clang_prefix" "$start"
}

# complete PREFIX START [ARCHITECTURE]: marks what was built since START seconds as whole.
complete() {
  printf 'Kokkos %s%s\n' "$kokkos_version" "${3:+ $3}" >"$1/.complete"
  say "Kokkos $kokkos_version built in $((SECONDS - $2)) s into $1"
}

# A Kokkos that the user names goes before an installed one, and that before one built here.
provide_kokkos() {
  local found
  local stamp=$prefix/.complete
  [[ -e $stamp ]] || rm -rf "$prefix"
  if [[ -e $stamp && -z ${Kokkos_ROOT:-}${CMAKE_PREFIX_PATH:-} ]]; then
    kokkos_root=$prefix
    return 0
  fi
  found=$(find_kokkos ON)
  if [[ -z $found ]]; then
    found=$(find_kokkos OFF)
    if [[ -z $found ]] && mend_packaged_kokkos; then
      kokkos_root=$mended
      found=$(find_kokkos OFF -DKokkos_ROOT="$mended")
    fi
    if [[ -n $found ]]; then kokkos_kernels=OFF; fi
  fi
  if [[ -z $found ]]; then
    kokkos_root=$prefix
    [[ -e $stamp ]] || build_openmp_kokkos
  elif [[ $kokkos_kernels == ON ]]; then
    say "using $found"
  else
    say "using $found, without Kokkos Kernels: none is installed that fits"
  fi
}

provide_hip_kokkos() {
  [[ $(cat "$hip_prefix/.complete" 2>/dev/null) == *" $hip_architecture" ]] && return 0
  rm -rf "$hip_prefix"
  build_hip_kokkos
}

provide_clang_kokkos() {
  [[ -e $clang_prefix/.complete ]] && return 0
  rm -rf "$clang_prefix"
  build_clang_kokkos
}

# The same program runs on it in the place of Debian's, whose name for the library it is given.
provide_mpich5() {
  local prefix=$deps/mpich5
  [[ -e $prefix/lib/libmpich.so.12 ]] && return 0
  say 'installing MPICH 5 from PyPI into .deps/mpich5'
  logged mpich5.log python3 -m venv --clear "$prefix"
  logged mpich5.log "$prefix/bin/pip" install --retries 1 --timeout 20 'mpich>=5,<6'
  ln -s libmpi.so.12 "$prefix/lib/libmpich.so.12"
}

# write_cmake_choices MPI FILE KOKKOS KERNELS: MPI is the ending that Debian gives to an MPI's programs, KOKKOS a prefix
# (empty: CMake finds it by itself), KERNELS ON or OFF.
write_cmake_choices() {
  local mpi=$1 file=$2 kokkos=$3 kernels=$4
  {
    echo '# Written by jobscripts/setup-debian.sh: an initial cache for cmake -C.'
    echo "set(MPI_C_COMPILER /usr/bin/mpicc.$mpi CACHE FILEPATH \"\")"
    echo "set(MPI_CXX_COMPILER /usr/bin/mpicxx.$mpi CACHE FILEPATH \"\")"
    echo "set(MPIEXEC_EXECUTABLE /usr/bin/mpiexec.$mpi CACHE FILEPATH \"\")"
    echo "set(HDF5_C_COMPILER_EXECUTABLE /usr/bin/h5pcc.$mpi CACHE FILEPATH \"\")"
    echo 'set(Python3_EXECUTABLE /usr/bin/python3 CACHE FILEPATH "")'
    if [[ -n $kokkos ]]; then
      echo "set(Kokkos_ROOT \"$kokkos\" CACHE PATH \"\")"
      echo "set(KokkosKernels_ROOT \"$kokkos\" CACHE PATH \"\")"
    fi
    echo "set(HALOGRAD_KOKKOS_KERNELS $kernels CACHE BOOL \"\")"
  } >"$file"
}

mpich5=false
openmpi=false
clang=false
hip=false
hip_architecture=gfx90a
kokkos_version=  # of the sources, once they are there
for option in "$@"; do
  case $option in
    --tests) packages+=("${test_packages[@]}") ;;
    --mpich5)
      packages+=(python3-venv)
      mpich5=true
      ;;
    --openmpi)
      packages+=(openmpi-bin libopenmpi-dev libhdf5-openmpi-dev)
      openmpi=true
      ;;
    --clang)
      packages+=(clang libomp-dev)
      clang=true
      ;;
    --hip | --hip=gfx*)
      packages+=(hipcc)
      hip=true
      [[ $option == --hip ]] || hip_architecture=${option#*=}
      ;;
    --mirror)
      debian_mirror
      exit 0
      ;;
    *) die "unknown option $option; the options are --tests, --mpich5, --openmpi, --clang, --hip[=gfx90a] and --mirror" ;;
  esac
done
command -v apt-get >/dev/null || die "no apt-get here; install what docs/building.md lists, or use Spack (spack.yaml)"
mkdir -p "$deps"
exec 9>"$deps/lock"
flock 9 # two calls at once: the second waits, then finds everything there
kokkos_root=
kokkos_kernels=ON
: >"$deps/apt.log"
install_packages
provide_kokkos
if $hip; then provide_hip_kokkos; fi
if $clang; then provide_clang_kokkos; fi
if $mpich5; then provide_mpich5; fi
rm -rf "$deps"/source/*-build-*
write_cmake_choices mpich "$deps/debian.cmake" "$kokkos_root" $kokkos_kernels
if $openmpi; then write_cmake_choices openmpi "$deps/openmpi.cmake" "$kokkos_root" $kokkos_kernels; fi
if $clang; then
  write_cmake_choices mpich "$deps/clang.cmake" "$clang_prefix" OFF
  {
    echo 'set(CMAKE_C_COMPILER clang CACHE STRING "")'
    echo 'set(CMAKE_CXX_COMPILER clang++ CACHE STRING "")'
    echo 'set(HALOGRAD_FUZZ OFF CACHE STRING "")' # links with the OpenMP of g++
  } >>"$deps/clang.cmake"
fi
if $hip; then write_cmake_choices mpich "$deps/hip.cmake" "$hip_prefix" OFF; fi
say "everything is there"
