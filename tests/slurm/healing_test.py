#!/usr/bin/env python3
"""Jobs whose ranks or programs fail, on a real Slurm: they go on by themselves, and only where that can help.
healing_nodes_long_test.py has nodes that fail, tests/app/heal_test.py every decision of jobscripts/heal.sh."""

import os
import re

import h5py
import numpy as np

from cluster import main
from killed_jobs import KilledJobs


class Healing(KilledJobs):
    NODES = 1

    def test_killed_ranks_and_the_bits_of_a_straight_run(self):
        job = self.train("--nodes=1", "--ntasks-per-node=2")
        straight = self.train("--nodes=1", "--ntasks-per-node=2", name="straight")
        node, = self.nodes_of(job)
        rank = self.kill(job, node, 1)
        record, = self.ends(job)
        self.ends(straight)
        log = self.log(job)
        self.assertIn(f"job {job}: rank {rank} on {node} died; the launcher ended with status 137\n", log)
        step = re.search(r"attempt 2 of 3 from step (\d+): 2 ranks on 1 of 1 nodes\n", log).group(1)
        self.assertRegex(log, rf"Resumed from .* {step} steps in total\n")
        self.assertEqual(record["Restarts"], "0")
        self.check_run(2)
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as one, \
                h5py.File(self.path("runs/straight/checkpoint.h5"), "r") as other:
            np.testing.assert_array_equal(one["replica/parameters"][()], other["replica/parameters"][()])
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".halograd")], [])

    def test_a_program_that_always_crashes(self):
        crashing = self.path("crashing.sh")
        with open(crashing, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nkill -SEGV $$\n")
        os.chmod(crashing, 0o755)
        job = self.train("--nodes=1", "--ntasks-per-node=1", HALOGRAD_CPU_PROGRAM=crashing)
        record, = self.ends(job, "FAILED", "139:0")
        self.assertEqual(record["Restarts"], "1")
        self.assertIn("3 attempts from step 0 have failed: HALOGRAD_MOST_ATTEMPTS is 3\n", self.log(job))

    def test_errors_of_the_user_are_not_queued_again(self):
        for words, says in ((["--nonsense"], "--nonsense"),
                            (["--set", "optimizer.learning_rate=1e30"], "is not finite"),
                            (["--set", "data.path=/nowhere.h5"], "/nowhere.h5")):
            job = self.train("--ntasks-per-node=2", words=words)
            record, = self.cluster.wait(job)
            self.assertEqual((record["JobState"], record["Restarts"]), ("FAILED", "0"), self.outputs())
            self.assertIn(says, self.log(job))
            self.assertIn("halograd's own error (above), which would come again\n", self.log(job))


if __name__ == "__main__":
    main()
