#!/usr/bin/env python3
"""Ten minutes of runs of random combinations of keys, each time others."""

import itertools
import os
import random
import time

from combinations import CombinationsTest
from program import main

SECONDS = 600


class Combinations(CombinationsTest):
    def test_many(self):
        first = int(os.environ.get("HALOGRAD_SEED", random.randrange(10**9)))
        print(f"seeds from {first} on")
        end = time.monotonic() + SECONDS
        for seed in itertools.count(first):
            if time.monotonic() >= end:
                break
            self.check(seed)


if __name__ == "__main__":
    main()
