#!/usr/bin/env python3
"""Jobs whose ranks, nodes or programs fail, on a real Slurm: they go on by themselves, and only where that can help.
tests/app/heal_test.py has every decision of jobscripts/heal.sh."""

import os
import re
import shutil

import h5py
import numpy as np

from cluster import DIGITS, main, read_metrics
from killed_jobs import EPOCHS, STEPS, KilledJobs


class Healing(KilledJobs):
    NODES = 3

    def check_run(self, ranks, folder="runs/digits"):
        """Every step of the run has its row, as many as on any number of ranks: the batch has stayed the same."""
        with h5py.File(self.path(folder, "checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (ranks, EPOCHS))
        metrics = read_metrics(self.path(folder, "metrics.h5"))
        self.assertEqual(metrics["epoch/steps"].tolist(), [STEPS * (epoch + 1) for epoch in range(EPOCHS)])
        self.assertGreater(metrics["epoch/mean_model_accuracy"][-1], 0.95)

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
