#!/usr/bin/env python3
"""The times that a training books, held against a clock outside: this test runs alone."""

import time

from free_pace_test import RANKS, STALE, slow_rank
from program import DIGITS, ProgramTest, main, read_metrics, sets


def booked_seconds(metrics, rank):
    """What a rank's time went into, by kind."""
    own = metrics["step/rank"] == rank
    kinds = {kind: metrics[f"step/{kind}_seconds"][own].sum() for kind in ("data", "wait", "compute", "update")}
    kinds["evaluation"] = metrics["epoch/evaluation_seconds"][:, rank].sum()
    kinds["wait"] += metrics["epoch/wait_seconds"][:, rank].sum()
    return kinds


class Clocks(ProgramTest):
    def test_whatever_waits_is_booked_as_waiting(self):
        """Times inside against the clock outside; injected computing makes both long against all that is not booked."""
        for label, words, waits in [("lockstep", sets(averager__name="allreduce"), (0.5, 0.95)), ("free", STALE, (0, 0.4))]:
            words = [*words, *slow_rank(1, 40000), *sets(training__epochs=2)]
            begin = time.monotonic()
            self.succeed("train", DIGITS, *words, "--check", ranks=RANKS)
            starting = time.monotonic() - begin
            begin = time.monotonic()
            self.succeed("train", DIGITS, *words, "--overwrite", ranks=RANKS)
            wall = time.monotonic() - begin
            metrics = read_metrics(self.path("runs/digits/metrics.h5"))
            for rank in range(RANKS):
                kinds = booked_seconds(metrics, rank)
                booked = sum(kinds.values())
                shown = f"{label}, rank {rank}: {kinds}; outside {wall:.2f} s, of which {starting:.2f} s to start"
                self.assertLess(booked, wall, shown)
                self.assertGreater(booked, wall - 3 * starting - 0.2 * wall, shown)
                share = kinds["wait"] / booked
                if rank != 1:
                    self.assertTrue(waits[0] <= share <= waits[1], shown)
            print(f"{label}: wall {wall:.2f} s, booked {booked:.2f} s, start {starting:.2f} s")


if __name__ == "__main__":
    main()
