#!/usr/bin/env python3
"""Jobs that are stopped, queued again and resumed, on a real Slurm: without a gap, and with the bits of a straight run."""

import os
import re
import time

import h5py
import numpy as np

from cluster import DIGITS, LAUNCHER_SITE, TIMEOUT, ClusterTest, main, read_metrics

RANKS = ["--ntasks-per-node=2", "--cpus-per-task=1"]
ENDLESS = ["--set", "training.epochs=100000"]
# Few steps per epoch, since ranks that share a core wait for each other at each of them.
EPOCHS, STEPS = 60, 4
LONG = ["--set", f"training.epochs={EPOCHS}", "--set", "training.batch=360"]


class Resume(ClusterTest):
    def train(self, script, *words, options=(), **environment):
        return self.submit(*RANKS, *options, self.script(script), DIGITS, "--set", "training.threads=1", *words, **environment)

    def wait_for_checkpoint(self, job, folder):
        """Without asking Slurm, which takes longer than an epoch."""
        end = time.monotonic() + TIMEOUT
        while not os.path.exists(self.path(folder, "checkpoint.h5")):
            self.assertLess(time.monotonic(), end, f"job {job}: {self.outputs()}")
            time.sleep(0.02)

    def check_log(self, log, reason, restarts):
        """One continuous story: each stop is followed by a start at that step, and each restart was asked for. The first step.

        On a busy machine there may be more than one: Slurm signals again where it is answered late, and a rank that gets no
        time for long is taken for dead.
        """
        events = re.findall(rf"^(Stopped by {reason}|Resumed from) .*?(\d+) steps in total", log, re.MULTILINE)
        stops = [i for i, (what, _) in enumerate(events) if what != "Resumed from"]
        self.assertGreater(len(stops), 0, log)
        for i in stops:
            self.assertEqual(events[i + 1:i + 2], [("Resumed from", events[i][1])], log)
        self.assertEqual(restarts, str(log.count("saved for later, back into the queue")), log)
        self.assertEqual(len(re.findall("^job .* start 1: ", log, re.MULTILINE)), 1)
        return int(events[stops[0]][1])

    def check_rows(self, folder):
        """Each epoch and each step has one row."""
        steps = read_metrics(self.path(folder, "metrics.h5"))
        self.assertEqual(steps["epoch/steps"].tolist(), [STEPS * (epoch + 1) for epoch in range(EPOCHS)])
        self.assertEqual(len(steps["step/loss"]), STEPS * EPOCHS)
        return steps

    def stop_and_resume(self, signal, reason):
        job = self.train("cpu.sbatch", *LONG, "--set", f"name={signal}")
        self.wait_for_checkpoint(job, f"runs/{signal}")
        self.cluster.command("scancel", f"--signal={signal}", job)
        record, = self.ends(job)
        step = self.check_log(self.read(f"halograd-cpu-{job}.out"), reason, record["Restarts"])
        self.assertGreater(step, 0)
        return self.check_rows(f"runs/{signal}")

    def test_signals_and_the_bits_of_a_straight_run(self):
        runs = {signal: self.stop_and_resume(signal, f"SIG{signal}") for signal in ("USR1", "TERM")}
        self.ends(self.train("cpu.sbatch", *LONG, "--set", "name=straight"))
        straight = self.check_rows("runs/straight")
        for signal, run in runs.items():
            np.testing.assert_array_equal(run["step/loss"], straight["step/loss"])
            with h5py.File(self.path(f"runs/{signal}/checkpoint.h5"), "r") as one, \
                    h5py.File(self.path("runs/straight/checkpoint.h5"), "r") as other:
                np.testing.assert_array_equal(one["replica/parameters"][()], other["replica/parameters"][()])

    def check_goes_on(self, job, folder, reason):
        """It was stopped in time, was queued again, and trains on; then it is cancelled."""
        def resumed(records):
            return records[0]["Restarts"] != "0" and "Resumed from" in self.read(f"halograd-cpu-{job}.out")
        self.cluster.wait(job, resumed)
        self.cluster.command("scancel", job)
        record, = self.cluster.wait(job)
        self.check_log(self.read(f"halograd-cpu-{job}.out"), reason, record["Restarts"])
        self.assertTrue(os.path.exists(self.path(folder, "checkpoint.h5")))

    def test_slurm_s_own_signal_and_the_time_limit(self):
        # Slurm looks at its limits twice a minute: it signals 50 to 80 s before the end of a job that asks for 50 s. Of a
        # shorter job that could be its first second, before the program catches signals.
        signalled = self.train("cpu.sbatch", *ENDLESS, options=["--time=2", "--signal=USR1@50"])
        # Without the line that asks for a signal, the clock alone stops the other.
        with open(self.script("cpu.sbatch"), encoding="utf-8") as file:
            text, lines = re.subn(r"^#SBATCH --signal.*\n", "", file.read(), flags=re.MULTILINE)
        self.assertEqual(lines, 1)
        with open(self.path("silent.sbatch"), "w", encoding="utf-8") as file:
            file.write(text)
        limited = self.submit(*RANKS, "--time=1", "silent.sbatch", DIGITS, *ENDLESS, "--set", "name=limited")
        self.check_goes_on(signalled, "runs/digits", "SIGUSR1")
        self.check_goes_on(limited, "runs/limited", "the time limit")

    def test_a_launcher_of_mpi_passes_signals_on(self):
        job = self.train("cpu.sbatch", *LONG, HALOGRAD_SITE=LAUNCHER_SITE)
        self.wait_for_checkpoint(job, "runs/digits")
        self.cluster.command("scancel", "--signal=USR1", job)
        record, = self.ends(job)
        self.check_log(self.read(f"halograd-cpu-{job}.out"), "SIGUSR1", record["Restarts"])
        self.check_rows("runs/digits")

    def test_a_heterogeneous_job(self):
        job = self.submit("--ntasks-per-node=2", "--cpus-per-task=1", ":", "--ntasks-per-node=1", "--cpus-per-task=1",
                          "--gpus-per-node=1", self.script("heterogeneous.sbatch"), DIGITS, *LONG)
        self.wait_for_checkpoint(job, "runs/digits")
        self.cluster.command("scancel", "--signal=USR1", job)
        records = self.ends(job)
        for record in records:
            self.check_log(self.read(f"halograd-heterogeneous-{job}.out"), "SIGUSR1", record["Restarts"])
        self.check_rows("runs/digits")

    def test_one_job_of_an_array(self):
        array = self.train("sweep.sbatch", *LONG, options=["--array=0-1"])
        # the last job of an array has the array's own number: it alone must be queued again
        last = f"runs/sweep-{array}/allreduce"
        self.wait_for_checkpoint(array, last)
        self.cluster.command("scancel", "--signal=USR1", f"{array}_1")
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
        self.cluster.command("scancel", "--signal=USR1", job)
        self.ends(job, "FAILED", "1:0")
        self.assertIn("HALOGRAD_MOST_STARTS is 1", self.read(f"halograd-cpu-{job}.out"))


if __name__ == "__main__":
    main()
