#!/usr/bin/env python3
"""A few runs of random combinations of keys."""

from combinations import CombinationsTest
from program import main


class Combinations(CombinationsTest):
    def test_a_few(self):
        for seed in range(12):
            self.check(seed)


if __name__ == "__main__":
    main()
