#!/usr/bin/env bash
# Runs tests/run.sh on what HEAD holds, in a minimal root of a Debian release in which nothing is installed that set-up
# does not install.
#
# Usage: bash tests/suite.sh NAME [ARGUMENTS...]
#   NAME        bookworm (Debian 12), trixie (13), sid
#   ARGUMENTS   those of tests/run.sh; all tests but the long ones by default, without the checks of the sources, whose
#               tools differ between releases
#
# The root is made in build/suite/NAME, or in HALOGRAD_SUITES/NAME, with debootstrap and from this machine's own mirror. It
# stays there: a second call finds packages and objects again. Needs root; some 5 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
  printf 'suite: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=tests/debian_root.sh
. tests/debian_root.sh

(($# > 0)) || die "a release, please: bookworm, trixie or sid"
suite=$1
shift
(($# > 0)) || set -- -LE long
[[ $suite =~ ^[a-z]+$ ]] || die "$suite is no name of a release"
((EUID == 0)) || die "debootstrap and chroot need root"
root=${HALOGRAD_SUITES:-$PWD/build/suite}/$suite
mkdir -p "${root%/*}"
exec 9>"$root.lock"
flock -n 9 || die "another call is at work in $root"
[[ -e $root/.complete ]] || make_root "$suite" "$root"
[[ -z $(git status --porcelain) ]] || printf 'suite: what is not committed is not tested\n'
git bundle create -q "$root/root/head.bundle" HEAD
in_root "$root" bash -euc '
  cd /root
  if [[ ! -d halograd ]]; then git init -q halograd; fi
  cd halograd
  git fetch -q --force ../head.bundle HEAD
  git reset -q --hard FETCH_HEAD
  bash tests/run.sh "$@"' run "$@"
