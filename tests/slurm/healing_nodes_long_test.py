#!/usr/bin/env python3
"""Jobs whose nodes fail, or whose ranks meet bad data, on a real Slurm of several nodes."""

import os
import re
import shutil

import h5py

from cluster import DIGITS, main
from killed_jobs import KilledJobs


class HealingNodes(KilledJobs):
    NODES = 3

    def test_a_node_that_fails_twice_is_left_out(self):
        job = self.train("--nodes=2", "--ntasks-per-node=1")
        good, bad = self.nodes_of(job)
        for attempt in (1, 2):
            self.kill(job, bad, attempt)
        self.ends(job)
        log = self.log(job)
        self.assertIn("1 ranks on 1 of 2 nodes\n", log)
        self.assertRegex(log[log.rindex("\nhalograd 0."):], rf"\n  {good} +rank 0: ")
        self.assertIn("but this job has 1: all replicas start from the mean", self.log(job))
        self.check_run(1)

    def test_the_queue_gives_other_nodes(self):
        job = self.train("--exclude=node3", "--nodes=1", "--ntasks-per-node=2")
        first, = self.nodes_of(job)
        for attempt in (1, 2):
            self.kill(job, first, attempt)
        record, = self.ends(job)
        self.assertIn("no node is left, back into the queue", self.log(job))
        self.assertNotIn(record["NodeList"], (first, "node3"))
        self.assertEqual(sorted(re.split(r",", record["ExcNodeList"])), sorted({first, "node3"}))
        self.check_run(2)

    def test_a_node_that_goes_down_is_replaced_by_a_spare_one(self):
        job = self.train("--nodes=3", "--ntasks-per-node=1", HALOGRAD_SPARE_NODES="1")
        newest = self.path("runs/digits/checkpoint.h5")
        self.wait_for(job, lambda: os.path.exists(newest), "a checkpoint")
        self.assertEqual({place for _, place in self.programs_of(job).values()}, {"node1", "node2"}, self.outputs())
        self.cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
        record, = self.ends(job)
        log = self.log(job)
        self.assertEqual(record["Restarts"], "0", log)
        self.assertRegex(log, r"attempt 2 of 3 from step \d+: 2 ranks on 2 of 3 nodes\n")
        places = log[log.rindex("\nhalograd 0."):]
        self.assertRegex(places, r"\n  node3 +rank 1: ")
        self.assertNotIn("node2", places)
        self.check_run(2)

    def test_bad_data_that_one_rank_meets(self):
        """It alone says so and aborts, which the others see as its death."""
        data = self.path("bad.h5")
        shutil.copy(DIGITS.replace(".toml", ".h5"), data)
        with h5py.File(data, "r+") as file:
            file["train/images"][700, 3, 4] = 200
        job = self.train("--ntasks-per-node=2", words=["--set", f"data.path={data}"])
        record, = self.cluster.wait(job)
        self.assertEqual((record["JobState"], record["Restarts"]), ("FAILED", "0"), self.outputs())
        self.assertRegex(self.log(job), r"halograd: rank \d: .*bad\.h5.*: image 700 has a value of 200, expected 0..16")
        self.assertIn("halograd's own error (above)", self.log(job))


if __name__ == "__main__":
    main()
