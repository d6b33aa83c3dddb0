#!/usr/bin/env python3
"""Every averager trains on two and on eight hosts to what it trains to on one, and in more ways on four."""

from lab_tests import main
from training_runs import AVERAGERS, MORE, TrainingRuns


class Training(TrainingRuns):
    HOSTS = 8

    def test_two_hosts(self):
        self.check_averagers(AVERAGERS, 2)
        self.check_averagers({"allreduce": [{"averager.codec": "bf16"}]}, 2)  # more hosts send too little each for a code

    def test_eight_hosts(self):
        self.check_averagers(AVERAGERS, 8)

    def test_more_ways(self):
        self.check_averagers(MORE, 4)


if __name__ == "__main__":
    main()
