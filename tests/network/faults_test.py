#!/usr/bin/env python3
"""A host that all wait for is cut off, or its link is slow all of a sudden: it is named, and the job does not wait for ever."""

from fault_runs import BAD, FaultRuns
from lab_tests import main, sets

# For seconds, also on a machine that is late to make the link slow; its steps are spent asleep.
FEW_STEPS = sets(training__epochs=16, training__batch=256, comm__inject__compute_us=100000)


class Faults(FaultRuns):
    def test_a_cut_host(self):
        self.check_cut()

    def test_a_slow_host_is_named(self):
        self.assertRegex(self.slow_down(*FEW_STEPS, *sets(comm__report_seconds=0.05)).err, rf"waits for rank {BAD}\b")


if __name__ == "__main__":
    main()
