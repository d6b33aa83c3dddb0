#!/usr/bin/env bash
# Which sources belong to what has changed since a revision, one path a line: those that have changed, and for a header
# its own source, or the first that includes it, if need be through another header. Fails where that is not enough: FILES
# that all sources depend on have changed too, or something that is no source.
# Usage: changed_sources.sh REVISION [FILES...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
revision=$1
shift

source_of() {
  local header=$1 user
  if [[ -e ${header%.hpp}.cpp ]]; then
    echo "${header%.hpp}.cpp"
    return
  fi
  user=$(git grep --untracked -lF "\"${header#lib/}\"" -- kernels lib app | sort -t . -k 2,2 | sed -n 1p) # .cpp first
  case $user in
    *.hpp) source_of "$user" ;;
    *.cpp) echo "$user" ;;
    *) return 1 ;;
  esac
}

if (($# > 0)); then git diff --quiet "$revision" -- "$@"; fi
changed=$(git diff --name-only --diff-filter=d "$revision" -- kernels lib app &&
  git ls-files --others --exclude-standard -- kernels lib app)
for file in $changed; do
  case $file in
    *.cpp) echo "$file" ;;
    *.hpp) source_of "$file" || exit 1 ;;
    *.txt | *.cmake) ;;
    *) exit 1 ;;
  esac
done | sort -u
