#!/usr/bin/env python3
"""A run on several hosts ends soon after its last epoch, or after it was stopped, and with its own status, whatever
MPI_Finalize does."""

from end_runs import DONE, REFUSED, REQUEUE, STOPPED, EndRuns
from lab_tests import main


class End(EndRuns):
    HOSTS = 3

    def test_done(self):
        self.check_ends(self.by_launcher, DONE, 0, runs=1)

    def test_stopped(self):
        self.check_ends(self.by_launcher, STOPPED, REQUEUE, runs=1, ranks_per_host=2)

    def test_refused(self):
        self.check_ends(self.by_launcher, REFUSED, 1, runs=1, ranks_per_host=2)

    def test_slurm(self):
        self.check_ends(self.by_srun, DONE, 0, runs=1)
        self.check_ends(self.by_srun, STOPPED, REQUEUE, runs=1)
        self.check_ends(self.by_srun, REFUSED, 1, runs=1)


if __name__ == "__main__":
    main()
