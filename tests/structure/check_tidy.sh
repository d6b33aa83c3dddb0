#!/usr/bin/env bash
# clang-tidy finds nothing in the sources that a build folder compiles (headers are looked at through them).
# Usage: check_tidy.sh [--since REVISION] [BUILD_FOLDER [PATH_REGEX]]
# With --since only what has changed after REVISION (changed_sources.sh), unless .clang-tidy has changed as well.
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
  python3 - "$build/compile_commands.json" "$database" $sources <<'END'
import json, os, sys
commands, folder, *sources = map(os.path.abspath, sys.argv[1:])
changed, known = [], set()
for entry in json.load(open(commands)):
    with open(entry["file"]) as file:
        text = file.read()
    found = [source for source in sources if source == entry["file"] or f'"{source}"' in text]
    if not found:
        continue
    known |= {*found}
    path = found[0]
    if len(found) > 1:  # those of them that are compiled together
        path = os.path.join(folder, f"{len(changed)}.cxx")
        with open(path, "w") as file:
            file.writelines(f'#include "{source}"\n' for source in found)
    changed.append(entry | {"file": path, "command": entry["command"].replace(entry["file"], path)})
if known != {*sources}:
    sys.exit(f"tidy: {commands} does not compile {', '.join(sorted({*sources} - known))}")
with open(os.path.join(folder, "compile_commands.json"), "w") as file:
    json.dump(changed, file)
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
