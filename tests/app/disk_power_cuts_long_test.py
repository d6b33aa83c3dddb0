#!/usr/bin/env python3
"""The power is cut after every call of a run."""

from disk_faults import DiskFaultTest
from program import main


class PowerCuts(DiskFaultTest):
    def test_of_a_new_run(self):
        self.check_power_cuts(epochs=0, seed=3)

    def test_of_a_run_that_is_resumed(self):
        self.check_power_cuts(epochs=1, seed=4)

    def test_without_the_best(self):
        self.check_power_cuts(epochs=1, seed=5, share=0.1, output__keep_best=False)


if __name__ == "__main__":
    main()
