#!/usr/bin/env bash
# The headers that a change since a revision can have broken, one path a line: those that have changed, and those that
# include one of them, if need be through another. Fails where FILES have changed, on which all depend.
# Usage: changed_headers.sh REVISION [FILES...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
revision=$1
shift
headers=('kernels/*.hpp' 'lib/*.hpp' 'app/*.hpp')

if (($# > 0)); then git diff --quiet "$revision" -- "$@"; fi
declare -A found
mapfile -t waiting < <(git diff --name-only "$revision" -- "${headers[@]}" && # what included one that is gone, too
  git ls-files --others --exclude-standard -- "${headers[@]}")
while ((${#waiting[@]} > 0)); do
  header=${waiting[0]}
  waiting=("${waiting[@]:1}")
  if [[ ${found[$header]:-} ]]; then continue; fi
  found[$header]=yes
  mapfile -t -O ${#waiting[@]} waiting < <(git grep --untracked -lF "\"${header#lib/}\"" -- "${headers[@]}")
done
for header in "${!found[@]}"; do
  if [[ -e $header ]]; then echo "$header"; fi
done | sort
