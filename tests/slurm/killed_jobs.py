"""Jobs whose ranks are killed: what the tests and the measurement of them have in common."""

import os
import re
import signal
import time

import h5py

from cluster import DIGITS, TIMEOUT, ClusterTest, read_metrics

# Steps that last long enough to be interrupted between two checkpoints, most of it asleep.
EPOCHS, STEPS = 60, 4  # per epoch
TRAINING = ["--set", "training.batch=360", "--set", "training.threads=1", "--set", "comm.inject.compute_us=30000"]


class KilledJobs(ClusterTest):
    def train(self, *options, epochs=EPOCHS, checkpoint_steps=3, name="digits", words=(), **environment):
        return self.submit("--cpus-per-task=1", *options, self.script("cpu.sbatch"), DIGITS, *TRAINING,
                           "--set", f"name={name}", "--set", f"training.epochs={epochs}",
                           "--set", f"output.checkpoint_steps={checkpoint_steps}",
                           *words, **environment)

    def check_run(self, ranks, folder="runs/digits", epochs=EPOCHS):
        """Every step of the run has its row, as many as on any number of ranks: the batch has stayed the same."""
        with h5py.File(self.path(folder, "checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (ranks, epochs))
        metrics = read_metrics(self.path(folder, "metrics.h5"))
        self.assertEqual(metrics["epoch/steps"].tolist(), [STEPS * (epoch + 1) for epoch in range(epochs)])
        self.assertGreater(metrics["epoch/mean_model_accuracy"][-1], 0.95)

    def log(self, job):
        path = self.path(f"halograd-cpu-{job}.out")
        return self.read(path) if os.path.exists(path) else ""

    def wait_for(self, job, condition, what):
        end = time.monotonic() + TIMEOUT
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain for {what}: {self.outputs()}")
            time.sleep(0.05)

    def wait_until_past(self, job, attempt, steps):
        """Waits until this attempt (from 1) has a checkpoint that many steps past where it began."""
        newest = self.path("runs/digits/checkpoint.h5")

        def step():
            return int(re.search(r"step_0*(\d+)", os.readlink(newest)).group(1)) if os.path.islink(newest) else 0

        begins = [0]  # the step that each attempt begins at

        def has_begun():
            begins[1:] = map(int, re.findall(r"Resumed from .* (\d+) steps in total", self.log(job)))
            return len(begins) >= attempt

        self.wait_for(job, has_begun, f"attempt {attempt}")
        self.wait_for(job, lambda: step() >= begins[-1] + steps, "a checkpoint")

    def kill(self, job, node, attempt):
        """Kills the node's last rank in this attempt, between two checkpoints; its number."""
        self.wait_until_past(job, attempt, steps=5)
        ranks = {number: process for number, (process, place) in self.programs_of(job).items() if place == node}
        os.kill(ranks[max(ranks)], signal.SIGKILL)
        return max(ranks)

    def kill_any(self, job, chance):
        """Kills a rank that `chance` (random.Random) chooses; its number, or None where none is running."""
        ranks = self.programs_of(job)
        if not ranks:
            return None
        rank = chance.choice(sorted(ranks))
        os.kill(ranks[rank][0], signal.SIGKILL)
        return rank

    def nodes_of(self, job):
        record, = self.cluster.wait(job, lambda records: records[0]["JobState"] == "RUNNING")
        return self.cluster.command("scontrol", "show", "hostnames", record["NodeList"]).split()
