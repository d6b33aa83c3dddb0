#!/usr/bin/env python3
"""Every averager trains on several hosts to what it trains to on one, and its bytes go through the network."""

from lab_tests import main
from training_runs import AVERAGERS, TrainingRuns

# Their graphs want a power of two; three hosts make a ring.
EXPONENTIAL = ("push_sum", "gossip_grad")


class Training(TrainingRuns):
    HOSTS = 4
    LOCKSTEP = {"training.epochs": 1, "training.batch": 128}

    def test_every_averager_is_tested(self):
        self.check_all_are_there()

    def test_four_hosts(self):
        self.check_averagers({name: AVERAGERS[name] for name in EXPONENTIAL}, 4)

    def test_groups_of_two_hosts(self):
        self.check("neighbour", {"parallel.spatial": "[2, 1]"}, 4)

    def test_three_hosts(self):
        self.check_averagers({name: AVERAGERS[name] for name in AVERAGERS if name not in EXPONENTIAL}, 3)


if __name__ == "__main__":
    main()
