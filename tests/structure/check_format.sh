#!/usr/bin/env bash
# Every C++ file of git's is formatted as .clang-format says.
# Usage: check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp')
if [[ ${1:-} == --fix ]]; then
  clang-format -i "${files[@]}"
fi
unformatted=$({ clang-format --dry-run -Werror "${files[@]}" 2>&1 || true; } | sed -nE 's/^([^: ]+):[0-9]+:[0-9]+: error: .*/\1/p' | sort -u)
if [[ -n $unformatted ]]; then
  printf 'format: not as .clang-format says (bash tests/structure/check_format.sh --fix):\n%s\n' "$unformatted"
  exit 1
fi
echo "format: ${#files[@]} files checked"
