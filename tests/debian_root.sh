# shellcheck shell=bash
# Bare roots of Debian releases and commands in them; needs root. Sourced by suite.sh and install/container_long_test.sh.

# make_root SUITE ROOT: a new minimal root of that release, from this machine's own mirror; what is said goes to ROOT.log.
make_root() {
  local suite=$1 root=$2 mirror
  mirror=$(bash jobscripts/setup-debian.sh --mirror)
  if ! command -v debootstrap >/dev/null; then
    apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends debootstrap >"$root.log" 2>&1 || {
      printf 'there is no debootstrap, and apt-get could not install it; see %s\n' "$root.log" >&2
      return 1
    }
  fi
  printf 'making %s from %s\n' "$root" "$mirror"
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase --include=ca-certificates,git "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    printf 'debootstrap failed; all of its output is in %s\n' "$root.log" >&2
    return 1
  }
  grep -lZs Acquire /etc/apt/apt.conf.d/* | xargs -0r cp -t "$root/etc/apt/apt.conf.d" # proxies
  touch "$root/.complete"
}

# in_root ROOT COMMAND...: with this machine's names and nothing else of its environment. The mounts live in a name space
# of this command alone and end with it, as do all processes started in the root.
# shellcheck disable=SC2016
in_root() {
  local root=$1 file
  shift
  for file in /etc/resolv.conf /etc/hosts; do cp -L $file "$root$file"; done
  unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    mount -t proc proc "$0/proc"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/dev/shm"
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
      http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" chroot "$0" "$@"' "$root" "$@"
}
