#!/usr/bin/env python3
"""Every averager trains on two and on eight hosts to what it trains to on one."""

from lab_tests import main
from training_runs import TrainingRuns


class Training(TrainingRuns):
    HOSTS = 8

    def test_two_hosts(self):
        self.check_averagers(2)

    def test_eight_hosts(self):
        self.check_averagers(8)


if __name__ == "__main__":
    main()
