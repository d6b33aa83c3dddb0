#!/usr/bin/env bash
# Spack, 1.0 or newer in the PATH, installs a clone of this checkout by its recipe and environment, and the program trains.
# What Debian has (jobscripts/setup-debian.sh) is named to Spack as external packages, so that it compiles halograd alone;
# beside that it fetches its wrapper of compilers.
#
# All of it lies in build/spack, or in HALOGRAD_SUITES/spack, and is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/install/outcomes.sh
. tests/install/outcomes.sh

work=${HALOGRAD_SUITES:-$PWD/build}/spack
kokkos=$PWD/.deps/kokkos

# external SPEC PREFIX: an entry of packages.yaml.
external() { printf '  %s:\n    buildable: false\n    externals: [{spec: "%s", prefix: "%s"}]\n' "${1%%@*}" "$1" "$2"; }

# version_of PACKAGE: of what Debian has packed, without Debian's own additions.
version_of() { dpkg-query -W -f '${source:Upstream-Version}' "$1" | grep -oE '^([0-9]+\.)*[0-9]+'; }

# MPICH and its HDF5 as they lie elsewhere, each in a folder of its own.
make_prefixes() {
  local hdf5 tool
  hdf5=$(dirname "$(dpkg -L libhdf5-mpich-dev | grep '/mpich/libhdf5.so$')")
  mkdir -p "$work"/{mpich,hdf5}/bin
  for tool in mpicc mpicxx; do ln -s "/usr/bin/$tool.mpich" "$work/mpich/bin/$tool"; done
  ln -s /usr/bin/h5pcc.mpich "$work/hdf5/bin/h5pcc"
  ln -s /usr/include/hdf5/mpich "$work/hdf5/include"
  ln -s "$hdf5" "$work/hdf5/lib"
}

write_packages() {
  local pair
  echo 'packages:'
  external "kokkos@$(cut -d' ' -f2 "$kokkos/.complete") +openmp +serial" "$kokkos"
  external "mpich@$(version_of libmpich-dev)" "$work/mpich"
  external "hdf5@$(version_of libhdf5-mpich-dev) +mpi" "$work/hdf5"
  for pair in openblas:libopenblas-dev zlib:zlib1g-dev libpng:libpng-dev libjpeg-turbo:libturbojpeg0-dev toml11:libtoml11-dev \
    cli11:libcli11-dev nlohmann-json:nlohmann-json3-dev py-h5py:python3-h5py py-matplotlib:python3-matplotlib \
    python:python3 cmake:cmake git:git gmake:make; do
    external "${pair%%:*}@$(version_of "${pair##*:}")" /usr
  done
  printf '  zlib-api: {require: zlib}\n  lapack: {require: openblas}\n  blas: {require: openblas}\n'
}

command -v spack >/dev/null || skip 'there is no spack in the PATH'
[[ $(spack --version) != 0.* ]] || skip "spack $(spack --version): 1.0 is the oldest with packages as the recipe has them"
[[ -e $kokkos/.complete ]] || skip 'there is no Kokkos in .deps: jobscripts/setup-debian.sh has not built one here'

rm -rf --one-file-system "$work"
mkdir -p "$work/scope"
make_prefixes
write_packages >"$work/scope/packages.yaml"
printf 'config:\n  install_tree: {root: %s}\n  build_stage: [%s]\n' "$work/tree" "$work/stage" >"$work/scope/config.yaml"
git clone --quiet . "$work/checkout" # Spack writes into an environment's folder
spack -C "$work/scope" -e "$work/checkout" install -j "$(nproc)" || fail "spack install"
status=$(git -C "$work/checkout" status --porcelain -- ':!spack.yaml') # to which Spack adds the compilers that it found
[[ -z $status ]] || fail "it left files in the checkout that git does not ignore: $status"

program=$(spack -C "$work/scope" -e "$work/checkout" location --install-dir halograd)/bin/halograd
"$program" --version
cd "$work"
OMP_NUM_THREADS=1 OMP_PROC_BIND=false mpiexec.mpich -n 2 "$program" train checkout/inputs/digits.toml --set training.epochs=2 |
  grep 'ranks      2' || fail 'the program that it installed does not train'
rm -rf --one-file-system "$work"
say "passed with Spack $(spack --version)"
