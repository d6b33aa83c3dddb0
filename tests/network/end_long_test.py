#!/usr/bin/env python3
"""Fifty runs in a row end soon after their last epoch, under Hydra and under Slurm; MPI_Finalize has a minute where it is used."""

from end_runs import DONE, LIMIT, REFUSED, REQUEUE, STOPPED, EndRuns
from lab_tests import main

FINALIZE = 60  # seconds, of lib/mpi/mpi_session.cpp
KEEP_MPI_FINALIZE = {"MPIR_CVAR_PMI_VERSION": "1"}  # which lib/mpi/launcher.cpp takes for a choice of the user's


class End(EndRuns):
    def test_done(self):
        self.check_ends(self.by_launcher, DONE, 0, runs=50)

    def test_two_ranks_per_host(self):
        self.check_ends(self.by_launcher, DONE, 0, runs=10, ranks_per_host=2)
        self.check_ends(self.by_launcher, STOPPED, REQUEUE, runs=10, ranks_per_host=2)
        self.check_ends(self.by_launcher, REFUSED, 1, runs=20, ranks_per_host=2)

    def test_slurm(self):
        self.check_ends(self.by_srun, DONE, 0, runs=50)
        self.check_ends(self.by_srun, STOPPED, REQUEUE, runs=10, ranks_per_host=2)

    def test_what_hangs_in_mpi_finalize_ends_there(self):
        self.check_ends(self.by_launcher, DONE, 0, runs=4, limit=FINALIZE + LIMIT, environment=KEEP_MPI_FINALIZE)


if __name__ == "__main__":
    main()
