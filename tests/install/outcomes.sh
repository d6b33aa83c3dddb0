# shellcheck shell=bash
# How a script that is a test says what it does, under its own name, and how it ends; sourced by those beside it.
say() { printf '%s: %s\n' "$(basename "$0" _long_test.sh)" "$*"; }
skip() {
  say "SKIPPED: $*"
  exit 77
}
fail() {
  say "FAILED: $*"
  exit 1
}
