#!/usr/bin/env python3
"""A job whose ranks die one after the other on hosts that a real network joins: it ends by itself, with every step trained."""

import random
import re

from lab_cluster import LabCluster
from lab_tests import main
from killed_jobs import KilledJobs  # noqa: I100: lab_cluster says where it is

HOSTS = 3
EPOCHS = 40  # leaves seconds of training after the second death


class HealingOverANetwork(KilledJobs):
    @classmethod
    def start_cluster(cls):
        return LabCluster(HOSTS)

    def test_two_ranks_die(self):
        chance = random.Random(24)
        job = self.train(f"--nodes={HOSTS}", "--ntasks-per-node=1", epochs=EPOCHS)
        victims = chance.sample(self.nodes_of(job), 2)
        for attempt, node in enumerate(victims, start=1):
            self.kill(job, node, attempt)
        record, = self.ends(job)
        log = self.log(job)
        for node in victims:
            self.assertRegex(log, rf"rank \d on {node} died")
        self.assertEqual(len(re.findall(rf"attempt \d of 3 from step \d+: {HOSTS} ranks on {HOSTS} of {HOSTS} nodes", log)), 2, log)
        self.assertEqual(record["Restarts"], "0", log)
        self.check_run(HOSTS, epochs=EPOCHS)


if __name__ == "__main__":
    main()
