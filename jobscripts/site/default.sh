# shellcheck shell=bash
# Site file: the job's environment on Debian with its own Slurm and MPICH, and the programs built in this checkout.
# Copy it for your cluster and submit with HALOGRAD_SITE=path/of/the/copy; a variable that is set already stays.

# The launcher that starts a program on all ranks of the job; -n and the like come from Slurm.
launch() { srun "$@"; }
# How srun tells an MPI library about its ranks (srun --mpi=list): MPICH takes pmi2, Open MPI pmix.
export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmi2}

: "${HALOGRAD_CPU_PROGRAM:=$HALOGRAD_HOME/build/openmp/halograd}"
: "${HALOGRAD_CUDA_PROGRAM:=$HALOGRAD_HOME/build/cuda/halograd}"
: "${HALOGRAD_HIP_PROGRAM:=$HALOGRAD_HOME/build/hip/halograd}"
# For tables and plots: a Python with h5py and matplotlib.
: "${HALOGRAD_PYTHON:=/usr/bin/python3}"
