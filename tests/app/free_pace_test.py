#!/usr/bin/env python3
"""Averagers whose ranks wait for nobody: each rank takes the next part of a batch when it is done with the last."""

import contextlib
import errno
import os
import shutil
import signal
import time
import unittest

import h5py
import numpy as np

from disk_faults import FOR_GOOD, SHIM, disk_with_a_fault
from program import DIGITS, SYNTHETIC, ProgramTest, main, ranks_below, read_metrics, read_replicas, sets
from stop_test import REQUEUE, SLOW_READS, Stopped

IMAGES, BATCH, STEPS = 1438, 64, 23  # of the digits' training set; steps per epoch
STALE = sets(averager__staleness=-1)
PAIRS = sets(averager__name="ad_psgd")
PATIENT = sets(averager__staleness=1, averager__patience=0.01)
PUSH_SUM = sets(averager__name="push_sum", averager__staleness=-1, topology__kind="exponential")
FAST = sets(averager__name="fast", averager__staleness=-1, optimizer__learning_rate=0.02)  # of up to 3 steps per batch
FREE = {"stale": STALE, "pairs": PAIRS, "patient": PATIENT, "push_sum": PUSH_SUM, "fast": FAST}
RANKS = 3
PAIRS_OF_RANKS = sets(parallel__spatial=[2, 1])  # share a replica: RANKS are then replicas
ENDLESS = sets(training__epochs=100000)
LIMIT = 60  # seconds to the end of all ranks
EPOCHS = 16  # which rank takes which images is never the same twice: after 8, accuracy still varies by 0.02


def slow_rank(rank, compute_us=5000, factor=4):
    return sets(comm__inject__compute_us=compute_us, comm__inject__slow_rank=rank, comm__inject__slow_factor=factor)


class FreePace(ProgramTest):
    def train(self, *words, ranks=RANKS):
        return self.succeed("train", DIGITS, *words, "--overwrite", ranks=ranks)

    def metrics(self, name="digits"):
        return read_metrics(self.path("runs", name, "metrics.h5"))

    def check_rows(self, metrics, epochs, label, replicas=RANKS):
        """Each part of each batch was trained on once, by some replica."""
        rows = epochs * STEPS
        self.assertEqual(metrics["step/loss"].shape, (rows, replicas), label)
        self.assertTrue(np.isfinite(metrics["step/loss"]).all(), label)
        self.assertTrue(((metrics["step/rank"] >= 0) & (metrics["step/rank"] < replicas)).all(), label)
        expected = [epoch * IMAGES + step * BATCH for epoch in range(epochs) for step in range(STEPS)]
        np.testing.assert_array_equal(metrics["step/samples"], np.repeat(np.reshape(expected, (-1, 1)), replicas, 1), label)
        np.testing.assert_array_equal(metrics["epoch/steps"], STEPS * np.arange(1, epochs + 1), label)
        np.testing.assert_array_equal(metrics["epoch/images"].sum(axis=1), epochs * [IMAGES], label)

    def train_with_a_slow_one(self, label, *words, who, epochs, accuracy, ranks):
        """Each image was trained on once an epoch, most of them by the other replicas. Returns the metrics."""
        out = self.train(*words, *slow_rank(1, factor=16), *sets(training__epochs=epochs), ranks=ranks)
        self.assertRegex(out, f"pace +free: a {who} takes", label)
        metrics = self.metrics()
        self.check_rows(metrics, epochs, label)
        images = metrics["epoch/images"].sum(axis=0)
        self.assertLess(2 * images[1], np.delete(images, 1).min(), f"{label}: a slow {who}'s share is small")
        self.assertGreater(metrics["epoch/mean_model_accuracy"][-1], accuracy, label)
        return metrics

    def test_each_averager_trains_on_each_image_once_an_epoch(self):
        for label, words in FREE.items():
            metrics = self.train_with_a_slow_one(label, *words, who="rank", epochs=EPOCHS, accuracy=0.95, ranks=RANKS)
            self.assertGreater(metrics["epoch/test_accuracy"][-1].min(), 0.9, label)
            with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
                attributes = {name: int(file.attrs[name]) for name in ("step", "epoch", "step_in_epoch")}
                self.assertEqual(attributes, {"step": EPOCHS * STEPS, "epoch": EPOCHS, "step_in_epoch": 0}, label)
                self.assertEqual(file.attrs["mean_model_accuracy"], metrics["epoch/mean_model_accuracy"][-1], label)

    def test_groups_that_share_a_replica_are_dealt_images_as_one(self):
        epochs = 8
        for label, words in FREE.items():
            self.train_with_a_slow_one(label, *words, *PAIRS_OF_RANKS, who="group", epochs=epochs, accuracy=0.9, ranks=2 * RANKS)
            with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
                self.assertEqual((file.attrs["ranks"], file.attrs["step"]), (RANKS, epochs * STEPS), label)
        parameters = read_replicas(self.path("runs/digits/checkpoint.h5"))["parameters"][0]
        for replica in parameters:  # FAST's last round has brought the best one to all, both of its shards
            np.testing.assert_array_equal(replica, parameters[0])

    def test_groups_on_other_numbers_of_ranks(self):
        for ranks, replicas, free in ((2, 1, False), (4, 2, True), (8, 4, True)):
            out = self.train(*STALE, *PAIRS_OF_RANKS, *sets(training__epochs=2), ranks=ranks)
            self.assertEqual("waits for no other" in out, free)
            metrics = self.metrics()
            self.assertEqual(metrics["step/loss"].shape, (2 * STEPS, replicas))
            np.testing.assert_array_equal(metrics["epoch/images"].sum(axis=1), 2 * [IMAGES])
            if free:
                self.check_rows(metrics, 2, f"{ranks} ranks", replicas)

    def test_groups_go_on_from_each_others_checkpoints(self):
        words = [*PUSH_SUM, *slow_rank(1, 3000), *sets(training__epochs=3, output__checkpoint_steps=10, output__keep=100)]
        self.train(*words, *PAIRS_OF_RANKS, ranks=2 * RANKS)

        def resume(step, *changes, ranks):
            folder = self.path("runs/digits/checkpoints")
            for name in os.listdir(folder):
                if name > f"step_{step:08d}.h5":
                    os.remove(os.path.join(folder, name))
            out = self.succeed("train", DIGITS, *words, *changes, "--resume", ranks=ranks)
            self.assertIn(f"{step} steps in total", out)
            self.assertRegex(out, r"pace +free")
            self.check_rows(self.metrics(), 3, f"{ranks} ranks from step {step}")
            return out

        resume(10, *PAIRS_OF_RANKS, ranks=2 * RANKS)
        self.assertIn("own state starts anew", resume(20, ranks=RANKS))  # it has none of a second shard
        resume(30, *sets(parallel__channels=2), ranks=2 * RANKS)
        out = resume(3 * STEPS, *PAIRS_OF_RANKS, ranks=2 * RANKS)
        self.assertIn("Nothing is left to train", out)

    def test_groups_with_checkpoints_by_the_clock_and_data_that_are_read_in_windows(self):
        words = [*PAIRS, *PAIRS_OF_RANKS, *slow_rank(1, 3000),
                 *sets(training__epochs=4, output__checkpoint_minutes=0.0001, output__checkpoint_epochs=0, output__keep=100,
                       data__shuffle="window", data__shuffle_window=2)]
        self.train(*words, ranks=2 * RANKS)
        self.check_rows(self.metrics(), 4, "whole")
        folder = self.path("runs/digits/checkpoints")
        for name in sorted(os.listdir(folder))[1:]:
            os.remove(os.path.join(folder, name))
        self.assertIn("Resumed from", self.succeed("train", DIGITS, *words, "--resume", ranks=2 * RANKS))
        self.check_rows(self.metrics(), 4, "resumed")

    def test_checkpoints_within_epochs(self):
        """Whoever resumes from one trains on the rest of the images, each once; on any number of ranks, in any way."""
        words = [*STALE, *slow_rank(1, 3000), *sets(training__epochs=3, output__checkpoint_steps=10,
                                                    output__checkpoint_epochs=0, output__keep=100)]

        def back_to(step):
            for later in range(step + 10, 3 * STEPS, 10):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self.path(f"runs/digits/checkpoints/step_{later:08d}.h5"))

        def resume(*changes, ranks):
            out = self.succeed("train", DIGITS, *words, *changes, "--resume", ranks=ranks)
            self.assertIn("Resumed from", out)
            return out

        self.train(*words)
        names = os.listdir(self.path("runs/digits/checkpoints"))
        self.assertEqual(sorted(names), [f"step_{step:08d}.h5" for step in range(10, 3 * STEPS, 10)])
        back_to(30)
        resume(ranks=RANKS)
        self.check_rows(self.metrics(), 3, "resumed")
        back_to(20)
        out = resume(*sets(averager__staleness=0, training__epochs=2), ranks=2)  # in lockstep
        self.assertIn("all replicas start from the mean", out)
        self.assertEqual(self.metrics()["epoch/steps"].tolist(), [STEPS, 2 * STEPS])
        back_to(40)
        resume(ranks=3)
        self.assertEqual(self.metrics()["epoch/steps"].tolist(), [STEPS, 2 * STEPS, 3 * STEPS])
        back_to(50)
        out = resume(ranks=2)
        self.assertIn("all replicas start from the mean", out)
        self.assertRegex(out, r"pace +free")
        metrics = self.metrics()
        self.assertEqual(metrics["epoch/steps"].tolist(), [STEPS, 2 * STEPS, 3 * STEPS])
        self.assertEqual(metrics["epoch/images"][-1].sum(), IMAGES)
        self.assertTrue(np.isfinite(metrics["step/loss"][50:, :2]).all())

    def test_checkpoints_by_the_clock(self):
        """On a busy machine a checkpoint may take as long as all other epochs: of each run, one is sure."""
        epochs = 8
        words = [*STALE, *slow_rank(1, 3000), *sets(training__epochs=epochs, output__checkpoint_minutes=0.0001,
                                                    output__keep=100, output__checkpoint_epochs=0)]
        folder = self.path("runs/digits/checkpoints")
        out = self.train(*words)
        names = sorted(os.listdir(folder))
        self.assertGreater(len(names), 0)
        self.assertEqual(out.count("  checkpoint runs/digits/checkpoints/"), len(names))
        for name in names[1:]:
            os.remove(os.path.join(folder, name))
        with h5py.File(os.path.join(folder, names[0]), "r") as file:
            self.assertEqual(f"step_{file.attrs['step']:08d}.h5", names[0])
            self.assertEqual(file.attrs["step"], STEPS * file.attrs["epoch"] + file.attrs["step_in_epoch"])
        self.assertIn("Resumed from", self.succeed("train", DIGITS, *words, "--resume", ranks=RANKS))
        self.assertGreater(len(os.listdir(folder)), 1)
        self.check_rows(self.metrics(), epochs, "resumed")

    def test_nothing_left(self):
        words = [*PAIRS, *sets(training__epochs=1)]
        self.train(*words)
        out = self.succeed("train", DIGITS, *words, "--resume", ranks=RANKS)
        self.assertIn("Nothing is left to train", out)

    def test_data_that_are_read_in_windows(self):
        words = [*STALE, *slow_rank(1, 3000), *sets(training__epochs=2, data__shuffle="window", data__shuffle_window=2)]
        self.train(*words)
        self.check_rows(self.metrics(), 2, "window")

    def test_what_does_not_go_with_it(self):
        for words, said in [(sets(training__shares="measured"), "training.shares"),
                            (sets(data__shuffle="ring"), "data.shuffle")]:
            self.refuse("train", DIGITS, *STALE, *words, words=[said])

    def test_numbers_that_are_not_finite_end_all_ranks(self):
        result = self.run_program("train", DIGITS, *STALE, *sets(optimizer__learning_rate=1e30), ranks=RANKS)
        self.check_refused(result, "is not finite", "the last state that was finite is in")
        self.assertTrue(os.path.exists(self.path("runs/digits/checkpoint.h5")))
        result = self.run_program("train", DIGITS, *STALE, *PAIRS_OF_RANKS, *sets(optimizer__learning_rate=1e30), "--overwrite",
                                  ranks=4)
        self.check_refused(result, "is not finite", "the last state that was finite is in")

    @unittest.skipUnless(SHIM, "SKIPPED: no library may be loaded before the sanitizer's")
    def test_a_write_that_fails_on_one_rank_ends_all(self):
        runs = {label: (words, RANKS, 1) for label, words in FREE.items()}
        runs["groups"] = ([*STALE, *sets(parallel__channels=2)], 4, 2)  # of a group the first rank writes
        for label, (words, ranks, writer) in runs.items():
            with self.subTest(label):
                environment = disk_with_a_fault(self.path("runs"), self.path("notes"), f"{writer} write 5 {FOR_GOOD} {errno.EIO}")
                begin = time.monotonic()
                result = self.run_program("train", DIGITS, *words, *ENDLESS, *sets(output__checkpoint_steps=10), "--overwrite",
                                          environment=environment, ranks=ranks)
                self.check_refused(result, "runs/digits/", os.strerror(errno.EIO))
                self.assertLess(time.monotonic() - begin, LIMIT)


class FreePaceStops(Stopped):
    """The base class's own tests are of lockstep, and run from its own file."""

    def check_stop(self, words, send, ranks=RANKS):
        words = ["train", DIGITS, *words, *slow_rank(0, 10000), *sets(training__epochs=12, output__print_steps=0)]
        process = self.start(words, ranks)
        self.until(process, " 2/12 ")
        send(process)
        begin = time.monotonic()
        status, out = self.finish(process)
        self.assertEqual(status, REQUEUE, out)
        self.assertLess(time.monotonic() - begin, LIMIT, out)
        self.assertRegex(out, r"Stopped by [A-Za-z0-9 ]+ after epoch \d+, step \d+ of 23")
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
            step = int(file.attrs["step"])
        self.assertEqual(read_metrics(self.path("runs/digits/metrics.h5"))["step/loss"].shape[0], step)
        out = self.succeed(*words, "--resume", ranks=ranks)
        metrics = read_metrics(self.path("runs/digits/metrics.h5"))
        self.assertEqual(metrics["step/loss"].shape[0], 12 * STEPS)
        self.assertTrue(np.isfinite(metrics["step/loss"]).all())
        np.testing.assert_array_equal(metrics["epoch/images"][:, :].sum(axis=1), 12 * [IMAGES])
        shutil.rmtree(self.path("runs"))

    def test_a_signal_at_one_rank_or_at_all(self):
        def to_one(process):
            os.kill(ranks_below(process.pid)[-1], signal.SIGUSR1)

        def to_all(process):
            for rank in ranks_below(process.pid):
                os.kill(rank, signal.SIGTERM)

        for number, (label, words) in enumerate(FREE.items()):
            with self.subTest(label):
                self.check_stop(words, (to_one, to_all)[number % 2])
        for label, send in {"a group's second rank": to_one, "all ranks of groups": to_all}.items():
            with self.subTest(label):
                self.check_stop([*STALE, *PAIRS_OF_RANKS], send, 4)

    def test_a_signal_at_one_rank_of_a_group_that_evaluates(self):
        words = [*self.slow_evaluation(), *SLOW_READS, *STALE,
                 *sets(name="silver", parallel__channels=2, output__print_steps=1)]
        process = self.start(words, 4)
        self.until(process, "step 1/2 ")
        time.sleep(1)
        os.kill(ranks_below(process.pid)[-1], signal.SIGUSR1)
        status, out = self.finish(process)
        self.assertEqual(status, REQUEUE, out)
        self.assertIn("Stopped by SIGUSR1 after epoch", out)
        scores = read_metrics(self.path("runs/silver/metrics.h5"))["epoch/test_accuracy"]
        self.assertTrue(np.isnan(scores[0, 1]), f"it was stopped before or after: {scores}")

    def test_a_signal_while_ranks_hold_pieces_of_windows(self):
        """What a rank still held of its piece is left out: no rank trains on it, and its cells are NaN."""
        words = ["train", DIGITS, *STALE, *slow_rank(0, 10000),
                 *sets(training__epochs=6, data__shuffle="window", data__shuffle_window=2)]
        process = self.start(words, RANKS)
        self.until(process, " 2/6 ")
        os.kill(ranks_below(process.pid)[-1], signal.SIGUSR1)
        status, out = self.finish(process)
        self.assertEqual(status, REQUEUE, out)
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
            step = int(file.attrs["step"])
        self.assertEqual(read_metrics(self.path("runs/digits/metrics.h5"))["step/loss"].shape[0], step)
        self.succeed(*words, "--resume", ranks=RANKS)
        metrics = read_metrics(self.path("runs/digits/metrics.h5"))
        np.testing.assert_array_equal(metrics["epoch/steps"], STEPS * np.arange(1, 7))
        self.assertEqual(metrics["step/loss"].shape[0], 6 * STEPS)
        self.assertTrue(np.isfinite(metrics["step/loss"][step:]).all())
        np.testing.assert_array_equal(metrics["epoch/images"][step // STEPS + 1:].sum(axis=1), (5 - step // STEPS) * [IMAGES])

    def test_the_time_limit_of_a_free_pace(self):
        runs = {label: (words, 2) for label, words in FREE.items()}
        runs["groups"] = ([*STALE, *sets(parallel__channels=2)], 4)
        for label, (words, ranks) in runs.items():
            with self.subTest(label):
                begin = time.monotonic()
                result = self.run_program("train", SYNTHETIC, *words, *ENDLESS,
                                          *sets(output__print_steps=0, output__checkpoint_epochs=0), "--overwrite",
                                          "--time-limit", 7, ranks=ranks)
                self.assertEqual((result.status, result.err), (REQUEUE, ""), result.out)
                self.assertIn("Stopped by the time limit after epoch", result.out)
                self.assertLess(time.monotonic() - begin, LIMIT)


def load_tests(loader, _tests, _pattern):
    """Without the tests that FreePaceStops inherits."""
    suite = loader.loadTestsFromTestCase(FreePace)
    for name in ("test_a_signal_at_one_rank_or_at_all", "test_a_signal_at_one_rank_of_a_group_that_evaluates",
                 "test_a_signal_while_ranks_hold_pieces_of_windows", "test_the_time_limit_of_a_free_pace"):
        suite.addTest(FreePaceStops(name))
    return suite


if __name__ == "__main__":
    main()
