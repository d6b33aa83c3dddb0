#!/usr/bin/env bash
# The headers that a change since a revision is likely to have broken, one path a line: those that have changed, and those
# that include one of them. Fails where FILES have changed, on which all depend.
# Usage: changed_headers.sh REVISION [FILES...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
revision=$1
shift
headers=('kernels/*.hpp' 'lib/*.hpp' 'app/*.hpp')

if (($# > 0)); then git diff --quiet "$revision" -- "$@"; fi
mapfile -t changed < <(git diff --name-only "$revision" -- "${headers[@]}" && # what included one that is gone, too
  git ls-files --others --exclude-standard -- "${headers[@]}")
for header in "${changed[@]}"; do
  if [[ -e $header ]]; then echo "$header"; fi
  git grep --untracked -lF "\"${header#lib/}\"" -- "${headers[@]}" || true
done | sort -u
