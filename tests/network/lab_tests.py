"""What the tests beside this file have in common: a cluster for the tests of a class, a folder for each test."""

import os
import re
import sys

from lab import CannotRun, Lab, hydra, open_mpi
from lab_slurm import LabSlurm

SOURCE = os.environ["HALOGRAD_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "app"))
from program import DIGITS, IS_OPEN_MPI, PROGRAM, SYNTHETIC, ProgramTest, main, read_metrics, sets  # noqa: E402, F401: for the tests as well

SKIPPED = 77


def cluster(hosts, **options):
    """A cluster; where this machine cannot have one, the test ends here, and ctest lists it as skipped."""
    try:
        return Lab(hosts, **{"mpi": open_mpi() if IS_OPEN_MPI else hydra(), **options})
    except CannotRun as reason:
        print(f"\n*** NETWORKS ARE NOT TESTED HERE: {reason} ***\n", flush=True)
        sys.exit(SKIPPED)


def said_by_ranks(err):
    """Standard error without what launchers say on a busy machine."""
    return [line for line in err.splitlines() if not re.match(r"srun: |\[\S+\] plm:rsh: Warning", line)]


class LabTest(ProgramTest):
    HOSTS = 2
    OPTIONS = {}  # of the cluster

    @classmethod
    def setUpClass(cls):
        cls.lab = cluster(cls.HOSTS, **cls.OPTIONS)
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.lab.end_all)

    def slurm_cluster(self):
        """Slurm on all hosts, for one test; runs by the launcher would end it."""
        if IS_OPEN_MPI:
            self.skipTest("this Slurm has no PMIx")
        if not hasattr(self, "slurm"):
            try:
                self.slurm = LabSlurm(self.lab)
            except CannotRun as reason:
                self.skipTest(str(reason))
        return self.slurm
