"""Jobs that are stopped, queued again and resumed: what the tests of them have in common."""

import re

from cluster import DIGITS, ClusterTest

RANKS = ["--ntasks-per-node=2", "--cpus-per-task=1"]
ENDLESS = ["--set", "training.epochs=100000", "--set", "comm.inject.compute_us=20000"]  # and mostly asleep


class StoppedJobs(ClusterTest):
    def train(self, script, *words, options=(), **environment):
        return self.submit(*RANKS, *options, self.script(script), DIGITS, "--set", "training.threads=1", *words, **environment)

    def check_log(self, log, reason, restarts):
        """One continuous story: each stop is followed by a start at that step, and each restart was asked for. The first step.

        On a busy machine there may be more than one: Slurm signals again where it is answered late, and a rank that gets no
        time for long is taken for dead.
        """
        events = re.findall(rf"^(Stopped by {reason}|Resumed from) .*?(\d+) steps in total", log, re.MULTILINE)
        stops = [i for i, (what, _) in enumerate(events) if what != "Resumed from"]
        self.assertGreater(len(stops), 0, log)
        for i in stops:
            self.assertEqual(events[i + 1:i + 2], [("Resumed from", events[i][1])], log)
        self.assertEqual(restarts, str(log.count(", back into the queue")), log)
        self.assertEqual(len(re.findall("^job .* start 1: ", log, re.MULTILINE)), 1)
        return int(events[stops[0]][1])
