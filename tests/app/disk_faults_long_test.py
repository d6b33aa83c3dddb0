#!/usr/bin/env python3
"""A disk that fails at every call of a run. Of the many times that a run reads, and of the thousands that it asks for memory,
each n-th fails, from one of the first n on that is drawn anew for each run of the test: repeated runs fail at others."""

import itertools
import random

from disk_faults import ERRORS, DiskFaultTest
from program import main


class Failures(DiskFaultTest):
    def check(self, rank, strides, first=1, **how):
        for call, epochs in itertools.product(ERRORS, (0, 1)):
            # rank 0 alone makes files, and the others read those of a run that is resumed
            if rank == 0 or (call not in ("room", "name") and (call, epochs) != ("read", 0)):
                stride = strides.get(call, 1)
                self.check_failures(call, epochs, rank, stride, first + random.randrange(stride), **how)

    def test_of_one_call(self):
        self.check(rank=0, strides={"read": 7, "memory": 199})  # of 450 reads, and 31000 allocations

    def test_of_all_calls_from_one_on(self):
        # what a run does after its first failure is little, and the same for the writes of one file
        self.check(rank=0, strides={"write": 7, "read": 29, "memory": 997}, first=3, for_good=True)

    def test_of_another_rank(self):
        self.check(rank=1, strides={"memory": 199})
        self.check(rank=1, strides={"memory": 997}, for_good=True)


if __name__ == "__main__":
    main()
