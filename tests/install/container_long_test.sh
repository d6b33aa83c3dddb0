#!/usr/bin/env bash
# The steps of site/halograd.def: by Apptainer where it is installed, otherwise one by one in bare Debian roots, which
# takes root and this machine's mirror. Then the program of the image runs on another MPI of MPICH's ABI, bound as a site
# would bind its own: MPICH 5, where jobscripts/setup-debian.sh --mpich5 has installed it.
#
# The roots are made in build/container, or in HALOGRAD_SUITES/container, and removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/debian_root.sh
. tests/debian_root.sh
# shellcheck source=tests/install/outcomes.sh
. tests/install/outcomes.sh

definition=site/halograd.def
host_mpi=$PWD/.deps/mpich5/lib
work=${HALOGRAD_SUITES:-$PWD/build}/container
# Programs of the image find themselves in a Slurm job, whose srun it lacks.
job=(SLURM_JOB_ID=1 "SLURM_NODELIST=$(uname -n)" SLURM_NNODES=1 SLURM_TASKS_PER_NODE=2)

# section STAGE NAME: the lines of a section of the definition, with its arguments filled in by their defaults.
section() {
  awk -v stage="$1" -v name="$2" '
    /^[A-Za-z]+:/ { inside = 0; if ($1 == "Stage:") current = $2; next }
    /^%/ { inside = 0; arguments = 0; where = current
           if ($1 == "%arguments") arguments = 1
           else if ($0 == "%" name && current == stage) inside = 1
           next }
    arguments { split($1, pair, "="); value[pair[1]] = pair[2] }
    inside { for (key in value) gsub("{{ *" key " *}}", value[key]); print }' "$definition"
}

# The definition names no release but the one that roots are made of, and nothing that is read here by another name.
check_definition() {
  [[ $(grep -c '^From: debian:bookworm-slim$' $definition) == 2 && $(grep -c '^Bootstrap:' $definition) == 2 ]] ||
    fail "$definition no longer has two stages from debian:bookworm-slim"
  local stage name
  for stage in build final; do
    for name in 'post' "files$([[ $stage == build ]] || echo ' from build')"; do
      [[ $(section $stage "$name") ]] || fail "$definition: the stage $stage has no %$name"
    done
  done
  [[ $(section build post) != *'{{'* ]] || fail "$definition: an argument has no default"
}

# copy_files STAGE NAME FROM TO: what %files lists.
copy_files() {
  local source target
  while read -r source target; do
    [[ $source ]] || continue
    mkdir -p "$(dirname "$4$target")"
    cp -rT "$3$source" "$4$target"
  done < <(section "$1" "$2")
}

# in_image SCRIPT: runs a script in the finished root with the image's environment, as Apptainer would.
in_image() {
  in_root "$work/final" sh -ec "export ${job[*]} LD_LIBRARY_PATH=
$(section final environment)
$1"
}

by_chroot() {
  ((EUID == 0)) || skip 'there is no apptainer here, and roots of Debian need root'
  unshare --mount --pid --fork true 2>/dev/null || skip 'there is no apptainer here, and mount name spaces are not allowed'
  command -v apt-get >/dev/null || skip 'there is no apptainer here, and this is not Debian'
  apt-get -q -o APT::Update::Error-Mode=any update >"$work/apt.log" 2>&1 || skip "there is no apptainer here, and no Debian mirror; see $work/apt.log"
  make_root bookworm "$work/build"
  cp -a "$work/build" "$work/final"
  say 'stage build'
  copy_files build files "$PWD/" "$work/build"
  in_root "$work/build" sh -ec "$(section build post)" >"$work/build.log" 2>&1 || {
    tail -n 30 "$work/build.log"
    fail "%post of the stage build; all of its output is in $work/build.log"
  }
  say 'stage final'
  copy_files final 'files from build' "$work/build" "$work/final"
  in_root "$work/final" sh -ec "$(section final post)" >"$work/final.log" 2>&1 || {
    tail -n 30 "$work/final.log"
    fail "%post of the stage final; all of its output is in $work/final.log"
  }
  say '%test'
  in_image "$(section final test)"
  in_image 'halograd --version | grep "MPICH Version: 4"' || fail "the image's own MPICH is not the one that runs"
  in_image '! command -v c++ && ! command -v cmake' || fail 'the image holds a compiler or CMake'
  if [[ -e $host_mpi/libmpi.so.12 ]]; then
    say "the host's MPI"
    find "$host_mpi" -mindepth 1 -maxdepth 1 ! -name 'python*' -exec cp -rLt "$work/final/host-mpi" {} +
    in_image 'halograd --version | grep "MPICH Version: 5"' || fail "the host's MPI is not the one that runs"
    in_image "$(section final test)" | grep 'ranks      2' || fail "training on the host's MPI"
  else
    say 'the host has no MPICH 5 in .deps: only the MPI of the image was tried'
  fi
  say "the image's root holds $(du -sm "$work/final" | cut -f1) MB"
}

by_apptainer() {
  apptainer build --force "$work/halograd.sif" "$definition"
  env "${job[@]}" apptainer test "$work/halograd.sif"
  if [[ -e $host_mpi/libmpi.so.12 ]]; then
    apptainer exec --bind "$host_mpi:/host-mpi" "$work/halograd.sif" halograd --version | grep 'MPICH Version: 5' ||
      fail "the host's MPI is not the one that runs"
  fi
}

check_definition
rm -rf --one-file-system "$work"
mkdir -p "$work"
if command -v apptainer >/dev/null; then by_apptainer; else by_chroot; fi
rm -rf --one-file-system "$work"
say 'passed'
