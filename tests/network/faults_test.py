#!/usr/bin/env python3
"""A host is cut off, or its link is slow all of a sudden: those who wait for it name it, or end; the others pass it over."""

from fault_runs import RING, FaultRuns
from lab_tests import main, sets


class Faults(FaultRuns):
    def test_a_cut_host(self):
        self.check_cut()

    def test_a_slow_host_is_named(self):
        self.check_named()
        self.check_named(*RING, *sets(averager__name="allreduce"))
        self.check_named(*sets(averager__staleness=-1), bad=0)  # which deals

    def test_a_slow_host_is_passed_over(self):
        self.check_passed_over(*sets(averager__staleness=-1))
        self.check_passed_over(*sets(averager__name="ad_psgd"))
        self.check_passed_over(*sets(averager__name="push_sum", averager__staleness=-1, topology__kind="exponential"))


if __name__ == "__main__":
    main()
