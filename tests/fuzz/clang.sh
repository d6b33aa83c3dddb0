#!/bin/sh
# clang.sh CLANG COMPILER ARGUMENTS...: what CMake would have COMPILER do is done by clang. Kokkos was built for COMPILER's
# OpenMP, beside whose library no other may be linked; the readers run nothing in parallel, so that pragmas are left alone.
clang=$1
shift 2
for argument; do
  shift
  case $argument in
    -fopenmp) set -- "$@" -D_OPENMP=201511 -Wno-unused-command-line-argument ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "$clang" "$@"
