#!/usr/bin/env bash
# Every C++ file of git's is formatted as .clang-format says.
# Usage: check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mode=(--dry-run --Werror)
[[ ${1:-} != --fix ]] || mode=(-i)
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.hpp' | xargs -0 clang-format "${mode[@]}"
echo "format: $(git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' | wc -l) files checked"
