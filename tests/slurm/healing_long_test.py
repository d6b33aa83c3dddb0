#!/usr/bin/env python3
"""A job of which a rank is killed again and again, a few seconds after each restart: it ends by itself, with the bits of a run
that nobody disturbs. tests/performance/healing.py measures what that costs."""

import random
import re
import time

import h5py
import numpy as np

from cluster import main, read_metrics
from killed_jobs import KilledJobs

KILLS = 12


class KilledAgainAndAgain(KilledJobs):
    NODES = 1  # of which there is no other: however often it fails, it is tried again

    def test_the_bits_of_a_straight_run(self):
        chance = random.Random(24)
        options = {"epochs": 400, "checkpoint_steps": 7}
        job = self.train("--ntasks-per-node=2", **options)
        straight = self.train("--ntasks-per-node=2", name="straight", **options)
        self.kill_again_and_again(job, KILLS, chance)
        record, = self.ends(job)
        self.ends(straight)
        log = self.log(job)
        self.assertEqual(record["Restarts"], "0", log)
        self.assertGreaterEqual(len(re.findall(r" died; the launcher ended with status ", log)), KILLS, log)
        for name in ("replica/parameters", "replica/statistics"):
            with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as one, \
                    h5py.File(self.path("runs/straight/checkpoint.h5"), "r") as other:
                np.testing.assert_array_equal(one[name][()], other[name][()])

    def test_a_free_pace(self):
        """Bits are other ones each time, but no epoch is lost, and the digits are learnt."""
        epochs = 150
        job = self.train("--ntasks-per-node=2", epochs=epochs, checkpoint_steps=7, words=["--set", "averager.staleness=-1"])
        self.kill_again_and_again(job, KILLS // 3, random.Random(25))
        self.ends(job)
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (2, epochs))
        accuracy = read_metrics(self.path("runs/digits/metrics.h5"))["epoch/mean_model_accuracy"]
        self.assertEqual(len(accuracy), epochs)
        self.assertGreater(accuracy[-1], 0.95)

    def kill_again_and_again(self, job, times, chance):
        for attempt in range(1, times + 1):
            self.wait_until_past(job, attempt, steps=1)
            time.sleep(chance.uniform(0, 3))
            self.assertIsNotNone(self.kill_any(job, chance), self.log(job))


if __name__ == "__main__":
    main()
