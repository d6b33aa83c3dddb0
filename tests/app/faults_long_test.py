#!/usr/bin/env python3
"""Hundreds of checkpoint writes, killed at random moments."""

from faults import FaultTest
from program import main


class Kills(FaultTest):
    def test_two_ranks(self):
        self.check_kills(kills=40, ranks=2, seed=11)

    def test_four_ranks(self):
        self.check_kills(kills=30, ranks=4, seed=12)

    def test_five_hundred(self):
        self.check_kills(kills=500, ranks=2, seed=13, every=5)


if __name__ == "__main__":
    main()
