"""The Slurm of a lab for what is tested and measured on that of tests/slurm: jobs that go over a real network."""

import os
import sys

from lab import CannotRun
from lab_slurm import LabSlurm
from lab_tests import SKIPPED, SOURCE, cluster

sys.path.insert(0, os.path.join(SOURCE, "tests", "slurm"))
from cluster import Cluster  # noqa: E402


class LabCluster(Cluster):
    """Hosts that a network joins, from start to stop."""

    LOG = "slurmctld.log"

    def __init__(self, hosts, seconds=1800, **options):  # pylint: disable=super-init-not-called: that starts another one
        self.lab = cluster(hosts, **options)
        try:
            self.slurm = LabSlurm(self.lab, seconds=seconds)
        except CannotRun as reason:
            self.stop()
            print(f"\n*** SLURM IS NOT TESTED HERE: {reason} ***\n", flush=True)
            sys.exit(SKIPPED)
        self.folder = self.slurm.folder
        self.environment = {"SLURM_CONF": self.slurm.environment["SLURM_CONF"]}

    def stop(self):
        self.lab.close()

    def execute(self, words, folder, **environment):
        """On the first host."""
        run = self.lab.start(words, folder, {**self.slurm.environment, **environment}, timeout=60)
        result = run.wait()
        self.lab.runs.remove(run)  # who waits for a job asks for it thousands of times
        return result
