#!/usr/bin/env bash
# clang-tidy finds nothing in the sources that a build folder compiles (headers are looked at through them).
# Usage: check_tidy.sh [BUILD_FOLDER [PATH_REGEX]]
# Defaults: build/tidy (preset tidy: sources of kernels, lib and app, eight at a time, which takes a third of the time), and
# all that is compiled there. Those of tests: build/ci '^.*/tests/'.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "${1:-build/tidy}")
pattern=${2:-.}
[[ -e $build/compile_commands.json ]] || {
  echo "tidy: no $build/compile_commands.json; configure first" >&2
  exit 2
}

cmake --build "$build" --target halograd_version >/dev/null # a header that is generated

# clang brings no omp.h of its own here; g++'s, alone in a folder, serves without the attribute that clang does not know.
omp=$build/omp
rm -rf "$omp"
mkdir -p "$omp"
sed -E 's/__malloc__ \([^)]*\)/__malloc__/' "$(g++ -print-file-name=include/omp.h)" >"$omp/omp.h"

start=$SECONDS
log=$build/tidy.log
# gcc's options that clang does not know are no findings.
if ! run-clang-tidy -quiet -j "$(nproc)" -p "$build" -extra-arg="-isystem$omp" -extra-arg=-Wno-unknown-warning-option \
  -extra-arg=-Wno-ignored-optimization-argument "$pattern" >"$log" 2>&1; then
  sed -i 's/\x1b\[[0-9;]*m//g' "$log" # colours
  grep -E -A 2 '(error|warning): ' "$log" || tail -n 40 "$log"
  echo "tidy: failed; all of its output is in $log" >&2
  exit 1
fi
echo "tidy: nothing found in $((SECONDS - start)) s"
