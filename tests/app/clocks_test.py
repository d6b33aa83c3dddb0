#!/usr/bin/env python3
"""The times that a training books, held against a clock outside: this test runs alone."""

import time

from free_pace_test import RANKS, STALE, STEPS, slow_rank
from program import DIGITS, ProgramTest, main, read_metrics, sets

START_AND_END = 2  # seconds of a run beside its epochs, a quarter of one as a rule


def booked_seconds(metrics, rank):
    """What a rank's time went into, by kind."""
    own = metrics["step/rank"] == rank
    kinds = {kind: metrics[f"step/{kind}_seconds"][own].sum() for kind in ("data", "wait", "compute", "update")}
    kinds["evaluation"] = metrics["epoch/evaluation_seconds"][:, rank].sum()
    kinds["wait"] += metrics["epoch/wait_seconds"][:, rank].sum()
    return kinds


class Clocks(ProgramTest):
    def test_whatever_waits_is_booked_as_waiting(self):
        """Rank 1 sleeps 0.12 s longer than the others in each step: in lockstep these wait for it."""
        epochs = 2
        longer = epochs * STEPS * 0.12
        for label, words, least in (("lockstep", sets(averager__name="allreduce"), 0.9 * longer), ("free", STALE, 0)):
            words = [*words, *slow_rank(1, 40000, factor=4), *sets(training__epochs=epochs)]
            begin = time.monotonic()
            self.succeed("train", DIGITS, *words, "--overwrite", ranks=RANKS)
            wall = time.monotonic() - begin
            metrics = read_metrics(self.path("runs/digits/metrics.h5"))
            for rank in range(RANKS):
                kinds = booked_seconds(metrics, rank)
                shown = f"{label}, rank {rank}: {kinds}; outside {wall:.2f} s"
                self.assertLess(sum(kinds.values()), wall, shown)
                self.assertGreater(sum(kinds.values()), wall - START_AND_END, shown)
                if rank != 1:
                    self.assertGreaterEqual(kinds["wait"], least, shown)
                print(shown)


if __name__ == "__main__":
    main()
