#!/usr/bin/env python3
"""Halos for which there is no room are refused before the first step, with what they need and what there is."""

import os
import subprocess

from program import ProgramTest, execute, launched, main, sets

RUN_FILE = """name = "run"
training.batch = 32
data.format = "synthetic"
data.synthetic_train = 32
data.synthetic_test = 8
data.synthetic_shape = [32, 32, 3]
topology.kind = "complete"
network.name = "wide"
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 2000
[[network.layer]]
type = "dense"
channels = 10
"""
MODEL = 4 * (3072 * 2000 + 2000 + 2000 * 10 + 10)  # bytes


class HaloMemory(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_file = self.write("run.toml", RUN_FILE)

    def test_a_small_shared_memory(self):
        """In a mount namespace of its own, /dev/shm has 96 MiB: enough for MPI, not for the halos."""
        script = self.write("small.sh", 'mount -t tmpfs -o size=96m tmpfs /dev/shm && exec "$@"\n')
        probe = subprocess.run(["unshare", "-m", "bash", script, "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("this user may not mount a small /dev/shm")
        ranks = 4
        result = execute(["unshare", "-m", "bash", script, *launched(["train", self.run_file], ranks)],
                         self.folder)
        needed = ranks * 2 * MODEL // 2**20  # of each its own weights, twice; neighbours read them there
        self.check_refused(result, "the halos of the 4 ranks on the node of rank 0 need", "/dev/shm has", "MiB free",
                           "a topology with fewer neighbours")
        told = int(result.err.split(" need ")[1].split(" MiB")[0])
        self.assertLess(abs(told - needed), 2)

    def test_more_slots_than_memory(self):
        result = self.run_program("train", self.run_file, *sets(comm__slots=1000000), ranks=2)
        self.check_refused(result, "the halos of the 2 ranks on the node of rank 0 need", "MiB")
        self.assertFalse(os.path.exists(self.path("runs/run/checkpoint.h5")))


if __name__ == "__main__":
    main()
