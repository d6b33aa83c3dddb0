# shellcheck shell=bash
# Site file: a cluster with environment modules, where halograd was built with these and installed. Edit the names.
module purge
module load gcc cray-mpich cray-hdf5-parallel

launch() { srun "$@"; }
export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-cray_shasta} # see srun --mpi=list
export MPICH_ASYNC_PROGRESS=${MPICH_ASYNC_PROGRESS:-0} # halograd polls by itself

: "${HALOGRAD_CPU_PROGRAM:=$HOME/halograd/bin/halograd}"
: "${HALOGRAD_CUDA_PROGRAM:=$HOME/halograd-cuda/bin/halograd}"
: "${HALOGRAD_HIP_PROGRAM:=$HOME/halograd-hip/bin/halograd}"
: "${HALOGRAD_PYTHON:=python3}"
