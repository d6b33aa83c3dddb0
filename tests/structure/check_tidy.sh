#!/usr/bin/env bash
# clang-tidy finds nothing in the sources that a build folder compiles (headers are looked at through them).
# Usage: check_tidy.sh [--since REVISION] [BUILD_FOLDER [PATH_REGEX]]
# With --since only what has changed after REVISION (changed_sources.sh), each source alone, unless .clang-tidy has
# changed as well.
# Defaults: build/tidy (preset tidy: sources of kernels, lib and app, eight at a time, which takes a third of the time), and
# all that is compiled there. Those of tests: build/ci '^.*/tests/'.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
since=
if [[ ${1:-} == --since ]]; then
  since=$2
  shift 2
fi
build=$(realpath "${1:-build/tidy}")
pattern=${2:-.}
[[ -e $build/compile_commands.json ]] || {
  echo "tidy: no $build/compile_commands.json; configure first" >&2
  exit 2
}

database=$build
if [[ -n $since ]] && sources=$(bash tests/structure/changed_sources.sh "$since" .clang-tidy); then
  if [[ -z $sources ]]; then
    echo "tidy: no source has changed since $since"
    exit 0
  fi
  echo "tidy: only what has changed since $since"
  database=$build/changed
  mkdir -p "$database"
  # shellcheck disable=SC2086 # no path here has a blank
  python3 - "$build/compile_commands.json" $sources >"$database/compile_commands.json" <<'END'
import json, os, sys
alone = []
for entry in json.load(open(sys.argv[1])):
    with open(entry["file"]) as file:
        text = file.read()
    for source in map(os.path.abspath, sys.argv[2:]):
        if source == entry["file"] or f'"{source}"' in text:  # one of those that are compiled together
            alone.append(entry | {"file": source, "command": entry["command"].replace(entry["file"], source)})
unknown = {*map(os.path.abspath, sys.argv[2:])} - {entry["file"] for entry in alone}
if unknown:
    sys.exit(f"tidy: {sys.argv[1]} does not compile {', '.join(sorted(unknown))}")
json.dump(alone, sys.stdout)
END
fi

cmake --build "$build" --target halograd_version >/dev/null # a header that is generated

# clang brings no omp.h of its own here; g++'s, alone in a folder, serves without the attribute that clang does not know.
omp=$build/omp
rm -rf "$omp"
mkdir -p "$omp"
sed -E 's/__malloc__ \([^)]*\)/__malloc__/' "$(g++ -print-file-name=include/omp.h)" >"$omp/omp.h"

start=$SECONDS
log=$build/tidy.log
# gcc's options that clang does not know are no findings.
if ! run-clang-tidy -quiet -j "$(nproc)" -p "$database" -extra-arg="-isystem$omp" -extra-arg=-Wno-unknown-warning-option \
  -extra-arg=-Wno-ignored-optimization-argument "$pattern" >"$log" 2>&1; then
  sed -i 's/\x1b\[[0-9;]*m//g' "$log" # colours
  grep -E -A 2 '(error|warning): ' "$log" || tail -n 40 "$log"
  echo "tidy: failed; all of its output is in $log" >&2
  exit 1
fi
echo "tidy: nothing found in $((SECONDS - start)) s"
