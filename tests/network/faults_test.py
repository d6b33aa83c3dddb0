#!/usr/bin/env python3
"""A host that is cut off, or whose link is slow all of a sudden: it is named, passed over, or the job asks to be queued again."""

import os
import time

import h5py

from lab_tests import DIGITS, PROGRAM, LabTest, cluster, main, sets

REQUEUE = 75
LIMIT = 60  # seconds from the cut to the end of all ranks that are not behind it
FIRST_EPOCH = r"^ +1/"
BAD = 1  # the host; one rank on each, so that its rank as well


class Faults(LabTest):
    HOSTS = 4

    def start(self, *words):
        """A run that has its first epoch behind it; each rank leaves its status in a file."""
        script = self.write("rank.sh", '"$@"\necho $? > status.$PMI_RANK\n')
        command = self.lab.mpich(["sh", script, PROGRAM, "train", DIGITS, "--overwrite", *words])
        run = self.lab.start(command, self.folder)
        run.until(FIRST_EPOCH)
        return run

    def statuses(self):
        found = {}
        for rank in range(self.HOSTS):
            path = self.path(f"status.{rank}")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found[rank] = file.read().strip()
        return found

    def check_cut(self, *words):
        self.lab = cluster(self.HOSTS)  # one of its own: a cable that was pulled stays out
        self.addCleanup(self.lab.close)
        run = self.start(*sets(training__epochs=100000), *words)
        self.lab.cut(BAD)
        begin = time.monotonic()
        others = [rank for rank in range(self.HOSTS) if rank != BAD]
        while time.monotonic() - begin < LIMIT and not all(self.statuses().get(rank) for rank in others):
            time.sleep(0.2)
        for rank in others:
            self.assertEqual(self.statuses().get(rank), str(REQUEUE), f"rank {rank}\n{run.text()}")
        self.assertIn(f"rank {BAD} has died", run.text())

    def test_a_cut_host_that_all_wait_for(self):
        self.check_cut()

    def test_a_cut_host_that_nobody_waits_for(self):
        self.check_cut("--set", "averager.staleness=-1")

    def test_a_slow_host_is_named(self):
        run = self.start(*sets(training__epochs=3, comm__report_seconds=0.05))
        self.lab.set_rate(BAD, 10)
        result = run.wait()
        self.lab.set_rate(BAD, 1000)
        self.assertEqual(result.status, 0, run.text())
        self.assertRegex(result.err, rf"waits for rank {BAD}\b")

    def test_a_slow_host_is_passed_over(self):
        run = self.start(*sets(training__epochs=6, averager__patience=0.05))
        self.lab.set_rate(BAD, 10)
        result = run.wait()
        self.lab.set_rate(BAD, 1000)
        self.assertEqual(result.status, 0, run.text())
        with h5py.File(self.path("runs/digits/metrics.h5"), "r") as file:
            edge = file["edge"]
            left_out = edge["left_out"][()][edge["from"][()] == BAD]
        self.assertGreater(left_out.sum(), 0)


if __name__ == "__main__":
    main()
