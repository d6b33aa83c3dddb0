#!/usr/bin/env bash
# What to run when a device is at hand, in one go: tests, sanitizers, recorded steps, benchmark, comparison with PyTorch.
# Every step has a time limit and a log; a table at the end says what passed.
#
# Usage: bash tests/device.sh [OPTION...] BUILD [STEP...]
#
#   BUILD           a build with tests (-DHALOGRAD_BUILD_TESTS=ON), for a device or, to try this script, for cores
#   STEP            unit mpi memcheck racecheck initcheck recording layers pytorch; by default all, in this order
#   --minutes N     that one command may take (30)
#   --filter F      which tests of kernels and networks the sanitizers look at, as GoogleTest's --gtest_filter (all)
#   --networks L    for layers and pytorch (lenet5,vgg_small,resnet20,resnet18,resnet50)
#   --python P      a Python with torch, for pytorch (python3)
#   --compare W     further words for compare_pytorch.py ("--rounds 2 --seconds 2")
#
# Logs and the table: BUILD/device/. Ends with status 1 where something failed.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
minutes=30
filter='*'
networks=lenet5,vgg_small,resnet20,resnet18,resnet50
python=python3
read -ra compare <<<"--rounds 2 --seconds 2"

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

while [[ ${1:-} == --* ]]; do
  (($# >= 2)) || usage
  case $1 in
    --minutes) minutes=$2 ;;
    --filter) filter=$2 ;;
    --networks) networks=$2 ;;
    --python) python=$2 ;;
    --compare) read -ra compare <<<"$2" ;;
    *) usage ;;
  esac
  shift 2
done
[[ -x ${1:-}/halograd ]] || usage
build=$(cd "$1" && pwd)
shift
steps=(unit mpi memcheck racecheck initcheck recording layers pytorch)
(($# > 0)) || set -- "${steps[@]}"
for step in "$@"; do
  [[ " ${steps[*]} " == *" $step "* ]] || usage
done
program=$build/halograd
logs=$build/device
table=$logs/table.txt
mkdir -p "$logs"
failures=0

# row NAME RESULT [REST]: into the table, and shown at once.
row() {
  printf '%-20s %-10s %s\n' "$1" "$2" "${3:-}" | tee -a "$table"
}

# run NAME COMMAND...: within the time limit, into a log of its own.
run() {
  local name=$1 start=$SECONDS status=0 result=passed
  shift
  timeout --kill-after=30 "${minutes}m" "$@" >"$logs/$name.log" 2>&1 || status=$?
  if ((status != 0)); then
    result=FAILED
    ((status == 124 || status == 137)) && result='TIME OVER'
    failures=$((failures + 1))
  fi
  row "$name" "$result" "$((SECONDS - start)) s, $name.log"
}

tests() {
  local name=$1
  shift
  run "$name" ctest --test-dir "$build" --output-on-failure --no-tests=error "$@"
}

sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    row "$1" skipped 'no compute-sanitizer'
    return
  fi
  local folder
  for folder in kernels nn; do
    run "$1.$folder" compute-sanitizer --tool "$1" --error-exitcode 1 "$build/tests/halograd_test_$folder" \
      "--gtest_filter=$filter"
  done
}

pytorch() {
  local torch_device=cpu check='import torch'
  if $on_device; then
    torch_device=cuda
    check+='; raise SystemExit(not torch.cuda.is_available())'
  fi
  if ! "$python" -c "$check" >/dev/null 2>&1; then
    row pytorch skipped "no torch for this device in $python"
    return
  fi
  run pytorch python3 "$source/tests/performance/compare_pytorch.py" --program "$program" --python "$python" \
    --device "$torch_device" --networks "$networks" "${compare[@]}"
}

# What the build computes on; without a device the program says so here.
device=$("$program" benchmark --network lenet5 --batch 1 --seconds 0.01 --json | sed 's/.*"device": *"\([^"]*\)".*/\1/')
case $device in
  Cuda) on_device=true precisions=(fp32 tf32 bf16) ;;
  HIP) on_device=true precisions=(fp32 bf16) ;;
  *) on_device=false precisions=(fp32) ;;
esac
parallel=$(($(nproc) < 8 ? $(nproc) : 8))

: >"$table"
row on "$device" "$(git -C "$source" describe --always --dirty 2>/dev/null || true)"
for step in "$@"; do
  case $step in
    unit) tests unit -L unit --parallel "$parallel" ;;
    mpi) tests mpi -L mpi -LE long ;; # one after the other: each has several ranks on the one device
    memcheck | racecheck | initcheck) sanitize "$step" ;;
    recording) tests recording -R '^app\.step_recording_test$' ;;
    layers)
      for precision in "${precisions[@]}"; do
        run "layers.$precision" "$program" benchmark --network "$networks" --precision "$precision" --layers
      done
      ;;
    pytorch) pytorch ;;
  esac
done
printf 'logs: %s\n' "$logs"
((failures == 0))
