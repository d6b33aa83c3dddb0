#!/usr/bin/env python3
"""A disk that fails, and power cuts, at every call of a run."""

from disk_faults import COMPRESSED, ERRORS, GROUPS, DiskFaultTest
from program import main


class PowerCuts(DiskFaultTest):
    def test_of_a_new_run(self):
        self.check_power_cuts(epochs=0, seed=3)

    def test_of_a_run_that_is_resumed(self):
        self.check_power_cuts(epochs=1, seed=4)

    def test_without_the_best(self):
        self.check_power_cuts(epochs=1, seed=5, share=0.2, output__keep_best=False)


class Failures(DiskFaultTest):
    def check(self, rank, for_good):
        for call in ERRORS:
            if rank == 0 or call not in ("room", "name"):  # rank 0 alone makes files
                stride = 997 if call == "memory" else 1
                for epochs in (0, 1):
                    self.check_failures(call, epochs, rank, stride, for_good=for_good)

    def test_of_one_call(self):
        self.check(rank=0, for_good=False)

    def test_of_all_calls_from_one_on(self):
        self.check(rank=0, for_good=True)

    def test_of_another_rank(self):
        self.check(rank=1, for_good=False)
        self.check(rank=1, for_good=True)


class FailuresOfCompression(Failures):
    settings = COMPRESSED


class FailuresOfAGroup(Failures):
    settings = GROUPS
    test_of_another_rank = None  # which has no files


if __name__ == "__main__":
    main()
