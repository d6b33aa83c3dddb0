#!/usr/bin/env python3
"""Every averager trains in all its ways on two, four and eight hosts to what it trains to on one, started by Slurm as well."""

from lab_tests import main
from training_runs import TrainingRuns


class Training(TrainingRuns):
    HOSTS = 8

    def test_two_hosts(self):
        self.check_every_way(2)
        self.check_averagers({"allreduce": [{"averager.codec": "bf16"}]}, 2)  # more hosts send too little each for a code

    def test_four_hosts(self):
        self.check_every_way(4)

    def test_eight_hosts(self):
        self.check_every_way(8)

    def test_through_slurm(self):
        self.check_through_slurm(8)


if __name__ == "__main__":
    main()
