#!/usr/bin/env python3
"""Jobs that are stopped, queued again and resumed, on a real Slurm: without a gap, and with the bits of a straight run.
limits_test.py has those that Slurm itself or the clock stops."""

import os
import re
import time

import h5py
import numpy as np

from cluster import DIGITS, LAUNCHER_SITE, TIMEOUT, main, read_metrics
from stopped_jobs import ENDLESS, StoppedJobs

# Few steps per epoch, since ranks that share a core wait for each other at each of them. They take 9 s at least: the
# signal that follows the first checkpoint comes before the end.
EPOCHS, STEPS = 40, 4
LONG = ["--set", f"training.epochs={EPOCHS}", "--set", "training.batch=360", "--set", "comm.inject.compute_us=60000"]


class Resume(StoppedJobs):
    def wait_for_checkpoint(self, job, folder):
        """Without asking Slurm, which takes longer than an epoch."""
        end = time.monotonic() + TIMEOUT
        while not os.path.exists(self.path(folder, "checkpoint.h5")):
            self.assertLess(time.monotonic(), end, f"job {job}: {self.outputs()}")
            time.sleep(0.02)

    def check_rows(self, folder):
        """Each epoch and each step has one row."""
        steps = read_metrics(self.path(folder, "metrics.h5"))
        self.assertEqual(steps["epoch/steps"].tolist(), [STEPS * (epoch + 1) for epoch in range(EPOCHS)])
        self.assertEqual(len(steps["step/loss"]), STEPS * EPOCHS)
        return steps

    def test_signals_and_the_bits_of_a_straight_run(self):
        names = ("USR1", "TERM", "straight")
        jobs = {name: self.train("cpu.sbatch", *LONG, "--set", f"name={name}") for name in names}
        for signal in ("USR1", "TERM"):
            self.wait_for_checkpoint(jobs[signal], f"runs/{signal}")
            self.cluster.command("scancel", f"--signal={signal}", jobs[signal], attempts=20)
        records = {name: self.ends(job)[0] for name, job in jobs.items()}
        runs = {name: self.check_rows(f"runs/{name}") for name in names}
        straight = runs.pop("straight")
        for signal, run in runs.items():
            step = self.check_log(self.read(f"halograd-cpu-{jobs[signal]}.out"), f"SIG{signal}", records[signal]["Restarts"])
            self.assertGreater(step, 0)
            np.testing.assert_array_equal(run["step/loss"], straight["step/loss"])
            with h5py.File(self.path(f"runs/{signal}/checkpoint.h5"), "r") as one, \
                    h5py.File(self.path("runs/straight/checkpoint.h5"), "r") as other:
                np.testing.assert_array_equal(one["replica/parameters"][()], other["replica/parameters"][()])

    def test_a_launcher_of_mpi_passes_signals_on(self):
        job = self.train("cpu.sbatch", *LONG, HALOGRAD_SITE=LAUNCHER_SITE)
        self.wait_for_checkpoint(job, "runs/digits")
        self.cluster.command("scancel", "--signal=USR1", job, attempts=20)
        record, = self.ends(job)
        self.check_log(self.read(f"halograd-cpu-{job}.out"), "SIGUSR1", record["Restarts"])
        self.check_rows("runs/digits")

    def test_a_heterogeneous_job(self):
        job = self.submit("--ntasks-per-node=2", "--cpus-per-task=1", ":", "--ntasks-per-node=1", "--cpus-per-task=1",
                          "--gpus-per-node=1", self.script("heterogeneous.sbatch"), DIGITS, *LONG)
        self.wait_for_checkpoint(job, "runs/digits")
        self.cluster.command("scancel", "--signal=USR1", job, attempts=20)
        records = self.ends(job)
        for record in records:
            self.check_log(self.read(f"halograd-heterogeneous-{job}.out"), "SIGUSR1", record["Restarts"])
        self.check_rows("runs/digits")

    def test_one_job_of_an_array(self):
        array = self.train("sweep.sbatch", *LONG, options=["--array=0-1"])
        # the last job of an array has the array's own number: it alone must be queued again
        last = f"runs/sweep-{array}/allreduce"
        self.wait_for_checkpoint(array, last)
        self.cluster.command("scancel", "--signal=USR1", f"{array}_1", attempts=20)
        records = {record["ArrayTaskId"]: record for record in self.ends(array)}
        self.assertEqual(records["0"]["Restarts"], "0")
        self.check_log(self.read(f"halograd-sweep-{array}_1.out"), "SIGUSR1", records["1"]["Restarts"])
        for name in ("none", "allreduce"):
            self.check_rows(f"runs/sweep-{array}/{name}")
        first = self.read(f"halograd-sweep-{array}_0.out")
        self.ends(int(re.search(r"^Submitted batch job (\d+)$", first, re.MULTILINE).group(1)))
        table = self.read(f"runs/sweep-{array}/table.txt")
        self.assertEqual(len(re.findall(rf"^(?:none|allreduce) +2 +{EPOCHS} ", table, re.MULTILINE)), 2, table)

    def test_not_for_ever(self):
        job = self.train("cpu.sbatch", *ENDLESS, HALOGRAD_MOST_STARTS="1")
        self.wait_for_checkpoint(job, "runs/digits")
        self.cluster.command("scancel", "--signal=USR1", job, attempts=20)
        self.ends(job, "FAILED", "1:0")
        self.assertIn("HALOGRAD_MOST_STARTS is 1", self.read(f"halograd-cpu-{job}.out"))


if __name__ == "__main__":
    main()
