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

make_root() {
  local mirror
  mirror=$(bash jobscripts/setup-debian.sh --mirror)
  if ! command -v debootstrap >/dev/null; then
    apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends debootstrap >"$root.log" 2>&1 ||
      die "there is no debootstrap, and apt-get could not install it; see $root.log"
  fi
  printf 'suite: making %s from %s\n' "$root" "$mirror"
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --include=ca-certificates,git "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    die "debootstrap failed; all of its output is in $root.log"
  }
  grep -lZs Acquire /etc/apt/apt.conf.d/* | xargs -0r cp -t "$root/etc/apt/apt.conf.d" # proxies
  touch "$root/.complete"
}

# The mounts live in a name space of this command alone and end with it, as do all processes started in the root.
# shellcheck disable=SC2016
in_root() {
  unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/dev/shm"
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
      http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" chroot "$0" "$@"' "$root" "$@"
}

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
[[ -e $root/.complete ]] || make_root
for file in /etc/resolv.conf /etc/hosts; do cp -L $file "$root$file"; done
[[ -z $(git status --porcelain) ]] || printf 'suite: what is not committed is not tested\n'
git bundle create -q "$root/root/head.bundle" HEAD
in_root bash -euc '
  cd /root
  if [[ ! -d halograd ]]; then git init -q halograd; fi
  cd halograd
  git fetch -q --force ../head.bundle HEAD
  git reset -q --hard FETCH_HEAD
  bash tests/run.sh "$@"' run "$@"
