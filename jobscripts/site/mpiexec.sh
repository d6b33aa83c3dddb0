# shellcheck shell=bash
# Site file: where srun cannot start the ranks of your MPI. MPICH's own launcher starts them inside the allocation. A
# heterogeneous job needs srun.
# shellcheck source=jobscripts/site/default.sh
. "$HALOGRAD_HOME/jobscripts/site/default.sh"
launch() { mpiexec.mpich -bootstrap slurm -n "$SLURM_NTASKS" "$@"; }
