#!/usr/bin/env python3
"""halograd watch beside runs that go on, end, stop or die."""

import os
import pty
import re
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np

from program import ASLEEP, PROGRAM, SYNTHETIC, TIMEOUT, ProgramTest, launched, main, read_metrics, sets

ROW = re.compile(r"^ +(\d+)/(\d+) +([0-9.]+) +([0-9.]+) +([0-9.]+)-([0-9.]+) +([0-9.]+) ")


class Watch(ProgramTest):
    def start(self, command, **options):
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, start_new_session=True,
                                   encoding="utf-8", **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def train(self, epochs, *words, ranks=2):
        """Training that goes on beside the test, seen to have written its first epoch."""
        process = self.start(launched(["train", SYNTHETIC, *sets(training__epochs=epochs), *words], ranks),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + TIMEOUT
        while not os.path.exists(self.path("runs/synthetic/checkpoint.h5")):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        return process

    def check_rows(self, out, epochs):
        """Every epoch has its row, with what the metrics file holds."""
        metrics = read_metrics(self.path("runs/synthetic/metrics.h5"))
        rows = [ROW.match(line).groups() for line in out.splitlines() if ROW.match(line)]
        self.assertEqual([row[:2] for row in rows], [(str(epoch + 1), str(epochs)) for epoch in range(epochs)], out)
        for at, row in enumerate(rows):
            accuracy = 100 * metrics["epoch/test_accuracy"][at]
            expected = [metrics["epoch/train_loss"][at].mean(), metrics["epoch/mean_model_loss"][at], accuracy.min(),
                        accuracy.max(), 100 * metrics["epoch/mean_model_accuracy"][at]]
            for shown, value in zip(map(float, row[2:]), expected):
                self.assertAlmostEqual(shown, value, delta=0.0051, msg=out)

    def test_a_line_an_epoch_until_the_run_ends(self):
        training = self.train(24, *sets(comm__inject__compute_us=5000))  # some epochs between two looks
        out = self.succeed("watch", "runs/synthetic", "--interval", 0.1)
        self.assertEqual(out.count("train loss"), 1)
        self.assertTrue(out.endswith("\nFinished: 24 epochs\n"), out)
        self.check_rows(out, 24)
        self.assertEqual(training.wait(TIMEOUT), 0)

    @staticmethod
    def rate(metrics):
        """Images over seconds, each rank's, of all ranks."""
        seconds = sum(metrics[f"step/{name}_seconds"] for name in ("compute", "update", "wait", "data"))
        seconds = np.nan_to_num(seconds)
        images = np.nansum(metrics["step/images_per_second"] * seconds, axis=0)
        return (images / np.maximum(seconds.sum(axis=0), 1e-300)).sum()

    def test_a_run_that_went_on_on_fewer_ranks(self):
        """Ranks that are not there any more have no values, and take no part in what is shown."""
        self.succeed("train", SYNTHETIC, *sets(training__epochs=1), ranks=3)
        self.succeed("train", SYNTHETIC, *sets(training__epochs=12), "--resume", ranks=1)
        for words in (["--once"], []):
            out = self.succeed("watch", "runs/synthetic", *words)
            self.assertNotIn("nan", out)
        metrics = read_metrics(self.path("runs/synthetic/metrics.h5"))
        loss = metrics["epoch/train_loss"][-1, 0]
        self.assertIn(f"training {loss:.4f}, ", self.succeed("watch", "runs/synthetic", "--once"))
        last = {name: column[-128:] for name, column in metrics.items() if name.startswith("step/")}
        self.assertIn(f"{self.rate(last):.0f} images/s", self.succeed("watch", "runs/synthetic", "--once"))

    def test_once(self):
        self.succeed("train", SYNTHETIC, *sets(training__epochs=7), ranks=2)
        out = self.succeed("watch", "runs/synthetic/", "--once")
        metrics = read_metrics(self.path("runs/synthetic/metrics.h5"))
        for words in ("synthetic: finished, 2 ranks\n", "epochs    7 of 7 [##############################] 100 %, 112 steps\n",
                      f"mean model {100 * metrics['epoch/mean_model_accuracy'][-1]:.2f} %",
                      f"training {metrics['epoch/train_loss'][-1].mean():.4f}, "
                      f"mean model {metrics['epoch/mean_model_loss'][-1]:.4f} (test)",
                      f"{self.rate(metrics):.0f} images/s", "of the last 112 steps"):
            self.assertIn(words, out)
        slowest = metrics["step/compute_seconds"].mean(axis=0).argmax()
        self.assertIn(f"the slowest is rank {slowest}\n", out)
        # the curve falls with the loss
        losses = metrics["epoch/train_loss"].mean(axis=1)
        for language, heights in (("C.UTF-8", "▁▂▃▄▅▆▇█"), ("C", "_.,-=+*#")):
            result = self.run_program("watch", "runs/synthetic", "--once", environment={"LC_ALL": language})
            curve = re.search(r"^ +(\S+) training loss by epoch$", result.out, re.MULTILINE).group(1)
            levels = [heights.index(character) for character in curve]
            expected = (losses - losses.min()) / (losses.max() - losses.min()) * 7.999
            self.assertEqual(levels, [min(7, int(level)) for level in expected])

    def test_a_stopped_run_and_its_going_on(self):
        self.succeed("train", SYNTHETIC, *sets(training__epochs=6), "--stop-after", 2, ranks=2)
        out = self.succeed("watch", "runs/synthetic")
        self.assertIn("\nStopped after 2 of 6 epochs and 32 steps; halograd train --resume continues it\n", out)
        self.assertIn("synthetic: stopped before its end", self.succeed("watch", "runs/synthetic", "--once"))
        watching = self.start([PROGRAM, "watch", "runs/synthetic", "--follow", "--interval", "0.1"],
                              stdout=subprocess.PIPE)
        self.succeed("train", SYNTHETIC, *sets(training__epochs=6), "--resume", ranks=2)
        out, _ = watching.communicate(timeout=TIMEOUT)
        self.assertEqual(watching.returncode, 0)
        self.assertTrue(out.endswith("\nFinished: 6 epochs\n"), out)
        self.check_rows(out, 6)

    def test_a_dead_run(self):
        self.end(self.train(1000000, *ASLEEP, ranks=1))
        result = self.run_program("watch", "runs/synthetic", "--interval", 0.1, "--patience", 1)
        self.assertEqual(result.status, 1)
        self.assertRegex(result.err, r"^halograd: runs/synthetic/metrics.h5: nothing new for .*the run has died")

    def test_a_terminal(self):
        training = self.train(15, *sets(comm__inject__compute_us=8000))  # 2 s at least: longer than the first view takes
        controller, terminal = pty.openpty()
        watching = self.start([PROGRAM, "watch", "runs/synthetic", "--interval", "0.1"], stdout=terminal)
        os.close(terminal)
        out = b""
        try:
            while chunk := os.read(controller, 65536):
                out += chunk
        except OSError:  # the other end is closed
            pass
        os.close(controller)
        self.assertEqual((watching.wait(TIMEOUT), training.wait(TIMEOUT)), (0, 0))
        text = out.decode()
        self.assertIn("synthetic: training, 2 ranks", text)
        views = re.split("\033\\[\\d+A\033\\[J", text)  # each replaces the one before
        self.assertGreater(len(views), 2)
        self.assertIn("synthetic: finished, 2 ranks", views[-1])
        self.assertTrue(views[-1].endswith("Finished: 15 epochs\r\n"), views[-1])
        moved = [int(lines) for lines in re.findall("\033\\[(\\d+)A\033\\[J", text)]
        self.assertEqual(moved, [view.count("\n") for view in views[:-1]])

    def test_refusals(self):
        self.succeed("train", SYNTHETIC, ranks=1)
        self.write("words", "no run\n")
        os.mkdir(self.path("empty"))
        for name in ("foreign", "newer", "text", "broken"):
            shutil.copytree(self.path("runs/synthetic"), self.path(name))
        with h5py.File(self.path("foreign/metrics.h5"), "w") as file:
            file["x"] = 1
        with h5py.File(self.path("newer/metrics.h5"), "r+") as file:
            file.attrs["format_version"] = 99
        self.write("text/metrics.h5", "no HDF5 file at all\n")
        self.write("broken/config.toml", "[training\n")
        for run, words in (("nowhere", ["nowhere: not a run folder"]), ("words", ["words: not a run folder"]),
                           ("empty", ["empty: holds no run", "config.toml"]), ("foreign", ["foreign/metrics.h5"]),
                           ("newer", ["newer/metrics.h5", "99"]), ("text", ["text/metrics.h5"]),
                           ("broken", ["broken/config.toml"])):
            for option in ("--once", "--follow"):
                self.refuse("watch", run, option, words=words, ranks=0)
        self.assertNotEqual(self.run_program("watch", "runs/synthetic", "--interval", "0").status, 0)


if __name__ == "__main__":
    main()
