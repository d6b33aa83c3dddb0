# shellcheck shell=bash
# Site file: where srun cannot start the ranks of Open MPI. Its own launcher starts them inside the allocation, as many on
# each node as Slurm has tasks there; halograd itself pins their threads. A heterogeneous job needs srun.
# shellcheck source=jobscripts/site/default.sh
. "$HALOGRAD_HOME/jobscripts/site/default.sh"
launch() { mpiexec.openmpi --bind-to none -n "$SLURM_NTASKS" "$@"; }
