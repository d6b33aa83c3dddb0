#!/usr/bin/env bash
# Sets up, builds and tests everything, on a bare Debian machine as well as on a developer's.
#
# Usage: bash tests/run.sh                  all checks of the sources (does the program compile for AMD devices as well?) on
#                                          Debian 12, then every test but the long ones
#        bash tests/run.sh --long           the same and the long ones; clang-tidy and hipcc look at all sources
#        bash tests/run.sh CTEST_ARGS...    only the build and the tests that ctest is asked for: -L unit, -R window, ...
#        bash tests/run.sh --openmpi ...    any of these with Open MPI instead of MPICH
#        bash tests/run.sh --clang [CTEST_ARGS...]
#                                          unit and MPI tests, or those that are asked for, compiled by clang
#        bash tests/run.sh --avx2 [CTEST_ARGS...]
#                                          the same, compiled for CPUs that have AVX2 and no more (x86-64-v3)
#        bash tests/run.sh --sanitize NAMES [CTEST_ARGS...]
#                                          unit and MPI tests, or those that are asked for, compiled with these sanitizers:
#                                          address,undefined; or thread, without unit tests of folders that have no threads
#        bash tests/run.sh --suite NAME [CTEST_ARGS...]   in a bare Debian release of that name (tests/suite.sh)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${1:-} == --suite ]]; then exec bash tests/suite.sh "${@:2}"; fi
build=build/ci
choices=.deps/debian.cmake
setup=(--tests)
if [[ ${1:-} == --openmpi ]]; then
  build=build/openmpi_ci
  choices=.deps/openmpi.cmake
  setup+=(--openmpi)
  shift
fi
if [[ ${1:-} == --clang ]]; then
  build=build/clang_ci
  choices=.deps/clang.cmake
  setup+=(--clang)
  shift
  if (($# == 0)); then set -- -L 'unit|mpi' -LE long; fi
fi
options=(--preset ci)
if [[ ${1:-} == --avx2 ]]; then
  build=build/avx2_ci
  options+=(-DHALOGRAD_NATIVE=OFF -DCMAKE_CXX_FLAGS=-march=x86-64-v3)
  shift
  if (($# == 0)); then set -- -L 'unit|mpi' -LE long; fi
fi
if [[ ${1:-} == --sanitize ]]; then
  build=build/sanitize_${2%%,*}
  options=(--preset debug "-DHALOGRAD_SANITIZE=$2" '-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 -fno-sanitize-recover=all')
  shift 2
  # OpenBLAS' threads end in UCX's hooks of memory, which crash where the thread sanitizer has forgotten them.
  if [[ $build == *thread ]]; then export OPENBLAS_NUM_THREADS=1; fi
  if (($# == 0)); then set -- -L 'unit|mpi' -LE long; fi
fi
sources=false
long=false
if (($# == 0)); then
  sources=true
  set -- -LE long
elif [[ $1 == --long ]]; then
  sources=true
  long=true
  shift
fi
# Formatters, clang-tidy and hipcc judge differently in each release: those of Debian 12 count.
if $sources && ! grep -qx VERSION_CODENAME=bookworm /etc/os-release; then
  echo 'run.sh: this is not Debian 12, whose tools check the sources: only tests run here'
  sources=false
fi
hip=false # Debian has hipcc for this architecture alone
if $sources && [[ $(dpkg --print-architecture) == amd64 ]]; then hip=true; fi
failed=()

# check NAME COMMAND...: a failure is kept for the end, so that one run shows all of them.
check() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@" || failed+=("$name")
  printf -- '-- %s: %s s\n' "$name" $((SECONDS - start))
}

check_shell() {
  git ls-files -z --cached --others --exclude-standard -- '*.sh' '*.sbatch' .ci/run | xargs -0 shellcheck
}

# clang-tidy, hipcc and the check of headers look at what has changed since the branch left origin/main, or in main's last
# eight commits; at everything where that is not known, and with --long.
since=
if ! $long; then
  if ! since=$(git merge-base HEAD origin/main 2>/dev/null) || [[ $since == "$(git rev-parse HEAD)" ]]; then
    since=$(git rev-parse --quiet --verify HEAD~8) || since=
  fi
fi

all_depend_on=(CMakeLists.txt CMakePresets.json cmake)

check_tidy() {
  cmake --preset tidy -C $choices && bash tests/structure/check_tidy.sh ${since:+--since "$since"} build/tidy
}

# Each header compiles by itself.
check_headers() {
  local headers
  if [[ $since ]] && headers=$(bash tests/structure/changed_headers.sh "$since" "${all_depend_on[@]}"); then
    echo "headers: only what has changed since $since"
    mapfile -t headers <<<"$headers"
    [[ -z ${headers[0]} ]] && return
    headers=("${headers[@]/#/$PWD/$build/tests/structure/headers/}")
    cmake --build "$build" --target "${headers[@]/%/.cpp^}" # what is made of them
    return
  fi
  cmake --build "$build" --target halograd_header_checks
}

check_hip() {
  local said changed units device_code
  device_code=$({ git diff --name-only --diff-filter=d "${since:-HEAD}" -- kernels lib app &&
    git ls-files --others --exclude-standard -- kernels lib app; } | xargs -r grep -lE 'KOKKOS_|Kokkos::') || true
  if [[ $since && -z $device_code ]] && git diff --quiet "$since" -- "${all_depend_on[@]}" jobscripts/setup-debian.sh; then
    echo "hip: no code for devices has changed since $since"
    return
  fi
  bash jobscripts/setup-debian.sh "${setup[@]}" --hip || return 1
  cmake --preset hip-check -C .deps/hip.cmake || return 1
  if [[ $since ]] && changed=$(bash tests/structure/changed_sources.sh "$since" "${all_depend_on[@]}"); then
    echo "hip: only sources with code for devices that have changed since $since"
    mapfile -t units < <(for source in $changed; do # alone or with others
      grep -qE 'KOKKOS_|Kokkos::' "$source" || continue
      grep -lF "\"$PWD/$source\"" "$PWD"/build/hip-check/*/CMakeFiles/*/Unity/unity_*_cxx.cxx || echo "$PWD/$source"
    done | sort -u)
    ((${#units[@]} == 0)) || cmake --build build/hip-check --target "${units[@]/%/^}" # what is made of them
    return
  fi
  cmake --build build/hip-check || return 1
  [[ -e /dev/kfd ]] && return 0 # an AMD device
  if said=$(build/hip-check/halograd benchmark --network lenet5 2>&1) || [[ $said != *'computes on a device (HIP), but found none'* ]]; then
    printf 'without a device the program says:\n%s\n' "$said"
    return 1
  fi
}

printf '== set-up\n'
if ((EUID == 0)) && [[ $choices == .deps/debian.cmake && ! -e $build/CMakeCache.txt ]]; then
  # What only tests need is fetched while the program is compiled.
  bash jobscripts/setup-debian.sh
  fetched=$(mktemp)
  bash jobscripts/setup-debian.sh "${setup[@]}" >"$fetched" 2>&1 &
  printf -- '-- set-up for the program: %s s\n' $SECONDS
  cmake "${options[@]}" -C $choices -B "$build" -DHALOGRAD_BUILD_TESTS=OFF -DHALOGRAD_BUILD_BENCHMARKS=OFF
  cmake --build "$build"
  status=0
  wait $! || status=$?
  cat "$fetched"
  rm "$fetched"
  ((status == 0))
else
  bash jobscripts/setup-debian.sh "${setup[@]}"
fi
if [[ $choices == .deps/debian.cmake ]]; then
  bash jobscripts/setup-debian.sh --mpich5 || echo 'run.sh: there is no MPICH 5 (above): its tests are skipped'
fi
printf -- '-- set-up and program: %s s\n' $SECONDS

printf '\n== build\n'
start=$SECONDS
cmake "${options[@]}" -C $choices -B "$build"
cmake --build "$build"
printf -- '-- build: %s s\n' $((SECONDS - start))

if [[ $sources == true ]]; then
  check format bash tests/structure/check_format.sh
  check shellcheck check_shell
  # Tests often wait: these have the cores meanwhile, and say what they found after them.
  trap 'trap - INT; kill 0' INT # they would not hear of Ctrl-C
  beside=$(mktemp)
  (
    renice -n 19 $BASHPID >/dev/null
    check headers check_headers
    check tidy check_tidy
    if $hip; then check hip check_hip; fi
    ((${#failed[@]} == 0))
  ) >"$beside" 2>&1 &
fi
check tests ctest --test-dir "$build" --output-log "$build/tests.log" \
  --output-on-failure --no-tests=error --parallel $(($(nproc) + 1)) "$@"
if $long; then
  check clang bash tests/run.sh --clang
  check avx2 bash tests/run.sh --avx2
  for names in address,undefined thread; do check "sanitizers: $names" bash tests/run.sh --sanitize $names; done
fi
if [[ $sources == true ]]; then
  wait $! || failed+=('headers, tidy or hip')
  cat "$beside"
  rm "$beside"
fi

skipped=$(sed -nE 's/^\s*[0-9]+ - (.*) \(Skipped\).*/  \1/p' "$build/tests.log")
[[ -z $skipped ]] || printf '\nrun.sh: SKIPPED, which ctest -V -R NAME explains:\n%s\n' "$skipped"
if ((${#failed[@]} > 0)); then
  printf '\nrun.sh: FAILED: %s (%s s)\n' "${failed[*]}" $SECONDS
  exit 1
fi
printf '\nrun.sh: everything passed in %s s\n' $SECONDS
if [[ ${options[*]} != *SANITIZE* ]]; then
  echo 'the row of this run for tests/install/versions.csv:'
  python3 tests/install/versions.py --row "$build" "$@"
fi
