#!/usr/bin/env python3
"""Every averager trains on four hosts to what it trains to on one, and its bytes go through the network."""

from lab_tests import main
from training_runs import AVERAGERS, TrainingRuns


class Training(TrainingRuns):
    HOSTS = 4

    def test_every_averager_is_tested(self):
        self.check_all_are_there()

    def test_four_hosts(self):
        self.check_averagers(AVERAGERS, 4)


if __name__ == "__main__":
    main()
