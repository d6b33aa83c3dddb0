#!/usr/bin/env python3
"""A host that nobody waits for is cut off, or its link is slow all of a sudden and it is passed over; a rank is killed."""

import h5py

from fault_runs import BAD, FaultRuns
from lab_tests import main, sets


class Faults(FaultRuns):
    def test_a_cut_host(self):
        self.check_cut(*sets(averager__staleness=-1))

    def test_a_dead_rank(self):
        self.check_deaths()

    def test_a_slow_host_is_passed_over(self):
        self.slow_down(*sets(training__epochs=3, averager__patience=0.05))
        with h5py.File(self.path("runs/digits/metrics.h5"), "r") as file:
            edge = file["edge"]
            left_out = edge["left_out"][()][edge["from"][()] == BAD]
        self.assertGreater(left_out.sum(), 0)


if __name__ == "__main__":
    main()
