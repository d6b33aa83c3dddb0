#!/usr/bin/env python3
"""A disk that fails at calls of runs that keep their files in other ways: each n-th write and allocation, from a first one that
is drawn, for disk_faults_long_test.py has all of those that such runs have in common with others."""

import random

from disk_faults import COMPRESSED, ERRORS, GROUPS, RUN, DiskFaultTest
from program import main, sets

STRIDES = {"write": 7, "read": 7, "memory": 1499}


class LayoutTest(DiskFaultTest):
    def check_some(self, call, stride):
        self.check_failures(call, epochs=0, stride=stride, first=random.randint(1, stride))


class Compression(LayoutTest):
    settings = COMPRESSED

    def test(self):
        for call in ERRORS:
            self.check_some(call, STRIDES.get(call, 1))
        for call in ("write", "open", "sync"):
            self.check_failures(call, epochs=0, rank=1)


class Group(LayoutTest):
    settings = GROUPS

    def test(self):
        for call in ERRORS:
            self.check_some(call, STRIDES.get(call, 1))


class LocalCopies(LayoutTest):
    """A copy that cannot be written is reported, and the run goes on."""
    settings = [*RUN, *sets(output__local_steps=1, output__local_folder="runs/silver/node")]
    may_go_on = list(ERRORS)

    def test(self):
        for call in ERRORS:
            self.check_some(call, STRIDES.get(call, 3))

    def test_of_power_cuts(self):
        self.check_power_cuts(epochs=0, seed=6, stride=5, share=0.2)


if __name__ == "__main__":
    main()
