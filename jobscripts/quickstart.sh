#!/usr/bin/env bash
# From a bare Debian machine to a trained network: sets up, builds the program, trains on Fashion-MNIST with four ranks
# that average their weights with their neighbours on a ring, and plots the run. After that a second call only says
# where the results are.
#
# Usage: bash jobscripts/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ranks=4
input=inputs/fashion_mnist.toml
run=runs/fashion_mnist
build=build/openmp
program=$build/halograd
mpiexec=/usr/bin/mpiexec.mpich # not whatever mpiexec comes first: the program is linked with MPICH
export OMP_PROC_BIND=false     # four ranks may share fewer cores

say() { printf '\nquickstart: %s\n' "$*"; }

build_program() {
  local start=$SECONDS log=$build.log
  mkdir -p build
  say "building $program"
  if ! { cmake --preset openmp -C .deps/debian.cmake -DHALOGRAD_BUILD_TESTS=OFF &&
    cmake --build $build --target halograd_program; } >$log 2>&1; then
    tail -n 40 $log >&2
    say "the build failed; all of its output is in $log" >&2
    exit 1
  fi
  echo "quickstart: built in $((SECONDS - start)) s"
}

train() {
  local command=("$mpiexec" -n "$ranks" "$program" train "$input")
  if compgen -G "$run/checkpoint*.h5" >/dev/null; then
    command+=(--resume) # an earlier call was interrupted
  elif [[ -d $run ]]; then
    mv $run "$run.interrupted.$(date +%s)"
  fi
  say "${command[*]}"
  "${command[@]}"
}

results() {
  say "the results are in $run:"
  local file meaning
  for file in "$run"/*; do
    case $file in
      *checkpoint*.h5) meaning="checkpoint; look into it with $program inspect, or h5dump" ;;
      *metrics*.h5) meaning="metrics of each step and epoch" ;;
      *.toml) meaning="the run file with every default filled in" ;;
      *.png) meaning="plot" ;;
      *) continue ;;
    esac
    printf '  %-46s %s\n' "$file" "$meaning"
  done
}

if compgen -G "$run/*.png" >/dev/null && [[ -x $program ]]; then
  results
  cat <<EOF
This run is finished, so nothing was trained. Train another one with
  $mpiexec -n $ranks $program train $input --set name=another
EOF
  exit 0
fi
bash jobscripts/setup-debian.sh
build_program
train
say "plotting"
/usr/bin/python3 jobscripts/plot_metrics.py $run
results
echo "quickstart: done in $SECONDS s"
