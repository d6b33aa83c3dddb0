# shellcheck shell=bash
# Site file: where srun cannot start the ranks of your MPI. MPICH's own launcher starts them inside the allocation. Slurm's
# signals then reach the launcher alone, so leave out --signal and let halograd watch the time limit itself; a
# heterogeneous job needs srun.
# shellcheck source=jobscripts/site/default.sh
. "$HALOGRAD_HOME/jobscripts/site/default.sh"
launch() { mpiexec.mpich -bootstrap slurm -n "$SLURM_NTASKS" "$@"; }
