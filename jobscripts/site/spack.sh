# shellcheck shell=bash
# Site file: halograd installed by Spack: spack env activate . && spack install, before the job. A job installs nothing.
# shellcheck disable=SC1091
. "${SPACK_ROOT:-$HOME/spack}/share/spack/setup-env.sh"
spack env activate "${HALOGRAD_SPACK_ENV:-$HALOGRAD_HOME}" # a folder with a spack.yaml that is installed

launch() { srun "$@"; }
export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmi2}

: "${HALOGRAD_CPU_PROGRAM:=halograd}"
: "${HALOGRAD_CUDA_PROGRAM:=halograd}"
: "${HALOGRAD_HIP_PROGRAM:=halograd}"
: "${HALOGRAD_PYTHON:=python3}"
