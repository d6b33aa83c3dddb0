#!/usr/bin/env bash
# The jobscripts that are installed from a checkout with a space in its name that only its owner can read: below DESTDIR,
# readable by all, and knowing the places where they and the program will lie.
# Usage: jobscripts.sh SOURCE WORK_FOLDER CMAKE
set -euo pipefail

source=$1
work=$2
cmake=$3
rm -rf "$work"
umask 077
mkdir -p "$work/a checkout/inputs"
cd "$work"
cp -r "$source/jobscripts" "a checkout"
cp "$source"/inputs/*.toml "$source"/inputs/*.py "a checkout/inputs"
cp "$source/LICENSE" "a checkout"
umask 022

fail() {
  echo "FAILED: $*"
  exit 1
}

# install_jobscripts DESTDIR PREFIX BINDIR
install_jobscripts() {
  DESTDIR=$1 "$cmake" -DSOURCE="$work/a checkout" -DPREFIX="$2" -DBINDIR="$3" -P "$source/cmake/HalogradInstallJobscripts.cmake" >/dev/null
}

home=$work/prefix/share/halograd
install_jobscripts "$work/stage" prefix bin
[[ $(find stage -name cpu.sbatch) == "stage$home/jobscripts/cpu.sbatch" ]] || fail "DESTDIR holds $(find stage -name cpu.sbatch)"
grep -qF "\${HALOGRAD_HOME:=$home}" "stage$home/jobscripts/cpu.sbatch" || fail "cpu.sbatch does not know its home"
grep -qF "\${HALOGRAD_CPU_PROGRAM:=$work/prefix/bin/halograd}" "stage$home/jobscripts/site/default.sh" ||
  fail "the site file does not know the program"
[[ -z $(find stage ! -perm -444 -o -type d ! -perm -555) ]] || fail "not for everybody: $(find stage ! -perm -444)"
cmp -s "stage$home/LICENSE" "$source/LICENSE" || fail "the licence is missing"
[[ $(cd "stage$home/inputs" && echo *.py) == 'make_neurites.py make_universes.py' ]] || fail "other scripts make data"
[[ $(cd "stage$home/jobscripts" && find . -type f -perm -111 | sort | tr '\n' ' ') == './plot_metrics.py ./plot_simulation.py ' ]] ||
  fail "scripts that can be executed are others"

install_jobscripts "" "$work/prefix" /elsewhere/bin
grep -qF ':=/elsewhere/bin/halograd}' "$home/jobscripts/site/default.sh" || fail "an absolute folder of programs was not taken"
