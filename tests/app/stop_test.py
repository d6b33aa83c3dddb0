#!/usr/bin/env python3
"""Runs that are stopped by signals or a time limit, at any step, and resumed equal one that went straight through."""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np

from program import (ASLEEP, MPIEXEC, PROGRAM, TIMEOUT, ProgramTest, execute, launched, main, ranks_below, read_metrics,
                     sets)
from resume_test import ADAM, RUN_FILE, SGD

REQUEUE = 75
# Two seconds or more, for a few interruptions; 2 ms of each step are asleep, which leaves the cores to others.
LONG = sets(training__epochs=8, data__synthetic_train=3000, comm__inject__compute_us=2000, output__print_steps=0)
SLOW_READS = sets(data__throttle_mb_per_second=0.23)


class Stopped(ProgramTest):
    def start(self, words, ranks):
        log = open(self.path("log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(launched(words, ranks), cwd=self.folder, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def finish(self, process):
        process.wait(TIMEOUT)
        with open(self.path("log"), encoding="utf-8") as log:
            return process.returncode, log.read()

    def until(self, process, text):
        """Waits for a text in the output."""
        end = time.monotonic() + TIMEOUT
        ended = False
        while not ended and time.monotonic() < end:
            ended = process.poll() is not None
            with open(self.path("log"), encoding="utf-8") as log:
                if text in log.read():
                    return
            time.sleep(0.02)
        self.fail(f"no '{text}': {self.finish(process)}")

    def check(self, ranks, optimizer, send, seed, **settings):
        label = f"{settings} on {ranks} ranks, seed {seed}"
        chance = random.Random(seed)
        run = self.write("run.toml", RUN_FILE + optimizer)
        words = ["train", run, *LONG, *sets(**settings)]
        self.succeed(*words, *sets(name="gold"), "--overwrite", ranks=ranks)
        seconds = read_metrics(self.path("runs/gold/metrics.h5"))["epoch/seconds"].sum()
        words += [*sets(name="silver")]
        middles = requests = 0
        for _ in range(20):
            process = self.start([*words, "--resume"], ranks)
            self.until(process, "consensus")  # the table's head: training has begun
            if requests < 3:
                time.sleep(chance.uniform(0, 0.3 * seconds))
                send(process, chance)
            requests += 1
            status, out = self.finish(process)
            if status == 0 and middles == 0:  # the machine was busier during the run that was timed: ask sooner
                shutil.rmtree(self.path("runs/silver"))
                seconds, requests = seconds / 2, 0
                continue
            if status == 0:
                break
            self.assertEqual(status, REQUEUE, f"{label}\n{out}")
            self.assertRegex(out, r"Stopped by SIG[A-Z0-9]+ after epoch \d+, step \d+ of \d+ \(\d+ steps in total\)", label)
            self.assertRegex(out, r"Exit status 75; .*\n  halograd train .* --resume\n", label)
            with h5py.File(self.path("runs/silver/checkpoint.h5"), "r") as file:
                step, middle = int(file.attrs["step"]), int(file.attrs["step_in_epoch"])
            middles += middle > 0
            self.assertEqual(read_metrics(self.path("runs/silver/metrics.h5"))["step/loss"].shape[0], step, label)
        self.assertEqual(status, 0, label)
        self.assertGreater(middles, 0, label)
        self.assert_same_runs(label)

    @staticmethod
    def to_one_rank(number):
        def send(process, chance):
            ranks = ranks_below(process.pid)
            with contextlib.suppress(ProcessLookupError):
                if ranks:
                    os.kill(chance.choice(ranks), number)
        return send

    @staticmethod
    def to_all_ranks(number):
        def send(process, chance):
            for rank in ranks_below(process.pid):
                with contextlib.suppress(ProcessLookupError):  # it may have ended since
                    os.kill(rank, number)
        return send

    def test_one_rank_alone(self):
        self.check(1, ADAM, self.to_one_rank(signal.SIGUSR1), 1, averager__name="none")

    def test_neighbour_combine_then_adapt(self):
        self.check(3, SGD, self.to_one_rank(signal.SIGUSR1), 2, averager__name="neighbour")

    def test_neighbour_adapt_then_combine(self):
        self.check(2, ADAM, self.to_all_ranks(signal.SIGUSR1), 3, averager__name="neighbour",
                   averager__order="adapt_then_combine", comm__force_put=True)

    def test_allreduce(self):
        self.check(2, SGD, self.to_all_ranks(signal.SIGTERM), 4, averager__name="allreduce")

    def test_alone_each(self):
        self.check(2, ADAM, self.to_one_rank(signal.SIGTERM), 5, averager__name="none")

    def test_the_time_limit(self):
        """The stop comes 5 s and two checkpoints before the limit."""
        run = self.write("run.toml", RUN_FILE + SGD)
        words = ["train", run, *ASLEEP, *sets(training__epochs=100000, output__print_steps=0)]
        for resume in ([], ["--resume"]):
            begin = time.monotonic()
            result = self.run_program(*words, "--time-limit", 7, *resume, ranks=2)
            self.assertEqual((result.status, result.err), (REQUEUE, ""), result.out)
            self.assertIn("Stopped by the time limit after epoch", result.out)
            self.assertLess(time.monotonic() - begin, 60)
        end = {"SLURM_JOB_END_TIME": str(int(time.time()) + 8)}
        result = self.run_program(*words, "--resume", ranks=2, environment=end)
        self.assertEqual(result.status, REQUEUE, result.out)

    def test_the_command_that_it_prints(self):
        """What is pasted into a shell resumes this run, and no other: words with spaces and quotes, and all settings."""
        run = self.write("a run's file.toml", RUN_FILE + SGD)
        layers = "network.layer=[{type = 'flatten'}, {type = \"dense\", channels = 4}]"
        words = [os.path.basename(run), "--set", layers, *ASLEEP, *sets(name="other", output__print_steps=0)]
        result = self.run_program("train", *words, *sets(training__epochs=100000), "--time-limit", 6.5, "--trace", ranks=2)
        self.assertEqual((result.status, result.err), (REQUEUE, ""), result.out)
        printed = re.search(r"continues the run:\n  (halograd .*)\n", result.out).group(1)
        for asked in ("--time-limit 6.5", "--trace", "--set training.epochs=100000"):
            self.assertIn(asked, printed)
        folder = os.path.dirname(PROGRAM)
        steps = len(read_metrics(self.path("runs/other/metrics.h5"))["step/loss"])
        launch = shlex.join([*MPIEXEC, "-n", "2"])
        resumed = execute(["sh", "-c", f"{launch} {printed}"], self.folder, {"PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual((resumed.status, resumed.err), (REQUEUE, ""), resumed.out)
        self.assertIn(f" {steps} steps in total", resumed.out)
        self.assertIn(f"\n  {printed}\n", resumed.out)  # and so on
        self.assertEqual(os.listdir(self.path("runs")), ["other"])
        self.assertGreater(len(read_metrics(self.path("runs/other/metrics.h5"))["step/loss"]), steps)

    def slow_evaluation(self):
        """A run of two steps an epoch, whose test images alone would take 12 s and more: reads of their file are throttled.
        With 10 images a step, three ranks do not have as many test batches each."""
        chance = np.random.default_rng(3)
        with h5py.File(self.path("slow.h5"), "w") as file:
            for split, count in (("train", 20), ("test", 600)):
                file[f"{split}/images"] = chance.random((count, 20, 20, 3), dtype=np.float32)
                file[f"{split}/labels"] = np.arange(count) % 4
        data = '[data]\nformat = "hdf5"\npath = "slow.h5"\ncache_memory = 0\n'
        text = RUN_FILE + SGD
        text = text[:text.index("[data]")] + data + text[text.index("[network]"):]
        return ["train", self.write("run.toml", text.replace("batch = 30", "batch = 10")), *sets(training__epochs=2)]

    def check_stopped_in_evaluation(self, out, words, reason):
        self.assertRegex(out, rf"Stopped by {reason} after epoch 1, step 2 of 2 \(2 steps in total\)")
        with open(self.path("runs/silver/trace.json"), encoding="utf-8") as file:
            self.assertIn('"evaluate"', file.read(), "it was stopped before")
        with h5py.File(self.path("runs/silver/checkpoint.h5"), "r") as file:
            self.assertEqual([int(file.attrs[name]) for name in ("epoch", "step", "step_in_epoch")], [0, 2, 2])
        self.assertEqual(len(read_metrics(self.path("runs/silver/metrics.h5"))["epoch/steps"]), 0)
        self.succeed(*words, *sets(name="silver"), "--resume", ranks=3)
        self.assert_same_runs(reason)
        shutil.rmtree(self.path("runs/silver"))

    def test_during_an_evaluation(self):
        words = self.slow_evaluation()
        self.succeed(*words, *sets(name="gold"), ranks=3)
        silver = [*words, *SLOW_READS, *sets(name="silver", output__print_steps=1), "--trace"]
        process = self.start(silver, 3)
        self.until(process, "step 1/2 ")
        time.sleep(1)
        self.to_one_rank(signal.SIGUSR1)(process, random.Random(7))
        status, out = self.finish(process)
        self.assertEqual(status, REQUEUE, out)
        self.check_stopped_in_evaluation(out, words, "SIGUSR1")
        result = self.run_program(*silver, "--time-limit", 12, ranks=3)
        self.assertEqual(result.status, REQUEUE, result.out + result.err)
        self.check_stopped_in_evaluation(result.out, words, "the time limit")

    def test_the_second_request_to_end(self):
        """It is obeyed at once, in the middle of a step, which takes half a minute here."""
        run = self.write("run.toml", RUN_FILE + SGD)
        process = self.start(["train", run, *sets(comm__inject__compute_us=30000000)], 1)
        self.until(process, "consensus")
        for _ in range(2):
            time.sleep(2.5)
            self.to_all_ranks(signal.SIGTERM)(process, None)
        status, out = self.finish(process)
        self.assertNotIn(status, (0, REQUEUE), out)
        self.assertNotIn("Stopped by", out)


if __name__ == "__main__":
    main()
