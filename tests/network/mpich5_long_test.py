#!/usr/bin/env python3
"""The program that Debian's MPICH was linked with, on MPICH 5 and both of its ways to a network: it trains on several hosts
to what it trains to on one, ends by MPI_Finalize soon after its last epoch, and asks to be queued again when a rank has died.
Takes what setup-debian.sh --mpich5 installs."""

import os
import sys

from end_runs import DONE, REFUSED, REQUEUE, STOPPED, EndRuns
from fault_runs import FaultRuns
from lab import mpich_below
from lab_tests import IS_OPEN_MPI, PROGRAM, SKIPPED, SOURCE, main
from training_runs import TrainingRuns

PREFIX = os.path.join(SOURCE, ".deps", "mpich5")


def over(netmod):
    """The tests over one way to a network."""
    mpi = mpich_below(PREFIX, netmod)

    class Training(TrainingRuns):
        HOSTS, OPTIONS = 8, {"mpi": mpi}

        def test_every_averager(self):
            for hosts in (2, 4, 8):
                self.check_every_way(hosts)

    class End(EndRuns):
        OPTIONS = {"mpi": mpi}

        def test_it_is_mpich_5(self):
            run = self.lab.start(self.lab.launched([PROGRAM, "--version"], hosts=1), self.folder)
            self.assertRegex(run.wait().out, "MPICH Version: 5")

        def test_ends(self):
            self.check_ends(self.by_launcher, DONE, 0, runs=5)
            self.check_ends(self.by_launcher, STOPPED, REQUEUE, runs=2, ranks_per_host=2)
            self.check_ends(self.by_launcher, REFUSED, 1, runs=2, ranks_per_host=2)

    class Faults(FaultRuns):
        OPTIONS = {"mpi": mpi}

        def test_a_dead_rank(self):
            self.check_deaths()

    return Training, End, Faults


TrainingOverUcx, EndOverUcx, FaultsOverUcx = over("ucx")
TrainingOverOfi, EndOverOfi, FaultsOverOfi = over("ofi")

if __name__ == "__main__":
    if IS_OPEN_MPI or not os.path.exists(PREFIX):
        print("*** MPICH 5 IS NOT TESTED HERE: it takes a program for MPICH and bash jobscripts/setup-debian.sh --mpich5 ***")
        sys.exit(SKIPPED)
    main()
