#!/usr/bin/env python3
"""training.shares = "measured": a slow rank gets fewer images, every image is seen, and the mean model learns."""

import re

import h5py
import numpy as np

from program import ProgramTest, main, sets
from inject_test import RUN_FILE

RANKS, SLOW, EPOCHS = 3, 1, 5


class Shares(ProgramTest):
    def train(self, **settings):
        run = self.write("run.toml", RUN_FILE.replace("[8, 8, 1]", "[32, 32, 3]"))
        out = self.succeed("train", run, "--overwrite",
                           *sets(training__epochs=EPOCHS, training__batch=48, data__synthetic_train=240,
                                 comm__inject__slow_rank=SLOW, comm__inject__slow_factor=400, **settings), ranks=RANKS)
        with h5py.File(self.path("runs/run/metrics.h5"), "r") as file:
            return out, {name: file[f"step/{name}"][()] for name in file["step"]}

    def test_the_slow_rank_gets_less(self):
        """So slow that it gets one image of 48, whatever else this machine does."""
        for settings in ({}, {"averager__name": "allreduce"}, {"averager__staleness": 2, "comm__slots": 3}):
            out, steps = self.train(training__shares="measured", **settings)
            shares = re.findall(r"shares of epoch (\d) in thousandths of a batch: (\d+) \(rank (\d)\) to (\d+)", out)
            self.assertEqual([int(share[0]) for share in shares], list(range(2, EPOCHS + 1)), out)
            for share in shares:
                self.assertEqual(int(share[2]), SLOW, out)
                self.assertLess(int(share[1]), 200, out)
            self.assertTrue(np.isfinite(steps["loss"]).all())

    def test_equal_by_default(self):
        out, _ = self.train()
        self.assertNotIn("shares of epoch", out)

    def test_windows_are_refused(self):
        run = self.write("run.toml", RUN_FILE)
        self.refuse("train", run, *sets(training__shares="measured", data__shuffle="window"),
                    words=['training.shares = "measured"', 'data.shuffle = "full"'])


if __name__ == "__main__":
    main()
