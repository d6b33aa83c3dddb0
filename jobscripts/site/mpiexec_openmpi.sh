# shellcheck shell=bash
# Site file: where srun cannot start the ranks of Open MPI. Its own launcher starts them inside the allocation, as many on
# each node as Slurm has tasks there; halograd itself pins their threads. A heterogeneous job needs srun.
# shellcheck source=jobscripts/site/default.sh
. "$HALOGRAD_HOME/jobscripts/site/default.sh"
# Without the variables that are meant for srun or for the batch script's own node.
launch() {
  env -u SLURM_HOSTFILE -u SLURM_DISTRIBUTION -u SLURMD_NODENAME mpiexec.openmpi --bind-to none -n "$SLURM_NTASKS" "$@"
}
