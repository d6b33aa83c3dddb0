"""A host that is cut off, or whose link is slow all of a sudden: it is named, passed over, or the job asks to be queued again;
shared by the short and the long test."""

import os
import time

from lab_tests import DIGITS, PROGRAM, LabTest, cluster, sets

REQUEUE = 75
LIMIT = 60  # seconds from the cut to the end of all ranks that are not behind it
FIRST_EPOCH = r"^ *1/"
BAD = 1  # the host; one rank on each, so that its rank as well


class FaultRuns(LabTest):
    HOSTS = 4

    def start(self, *words):
        """A run that has its first epoch behind it; each rank leaves its process and its status in files."""
        script = self.write("rank.sh", 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\n"$@" &\necho $! > process.$rank\n'
                            'wait $!\necho $? > status.$rank\n')
        command = self.lab.launched(["sh", script, PROGRAM, "train", DIGITS, "--overwrite", *words])
        self.lab.end_all()  # of a run before
        for rank in self.statuses():
            os.remove(self.path(f"status.{rank}"))
        run = self.lab.start(command, self.folder)
        run.until(FIRST_EPOCH)
        return run

    def statuses(self):
        found = {}
        for rank in range(self.HOSTS):
            path = self.path(f"status.{rank}")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found[rank] = file.read().strip()
        return found

    def check_cut(self, *words):
        self.lab = cluster(self.HOSTS)  # one of its own: a cable that was pulled stays out
        self.addCleanup(self.lab.close)
        run = self.check_others_end(lambda: self.lab.cut(BAD), *words)
        self.assertIn(f"rank {BAD} has died", run.text())

    def check_deaths(self):
        """Of a rank whose host lives on, so that its connections are closed at once; UCX and MPI may crash for it."""
        def kill():
            with open(self.path(f"process.{BAD}"), encoding="utf-8") as file:
                self.lab.start(["kill", "-KILL", file.read().strip()], self.folder, host=BAD).wait()

        for settings in ({"comm__transport": "put"}, {"comm__transport": "send"}, {"averager__staleness": -1},
                         {"averager__name": "allreduce"}):
            with self.subTest(**settings):
                self.check_others_end(kill, *sets(**settings))

    def check_others_end(self, fate, *words):
        """With the status that asks to be queued again; the run."""
        run = self.start(*sets(training__epochs=100000), *words)
        fate()
        begin = time.monotonic()
        others = [rank for rank in range(self.HOSTS) if rank != BAD]
        while time.monotonic() - begin < LIMIT and not all(self.statuses().get(rank) for rank in others):
            time.sleep(0.2)
        for rank in others:
            self.assertEqual(self.statuses().get(rank), str(REQUEUE), f"rank {rank}\n{run.text()}")
        return run

    def slow_down(self, *words):
        """Trains on while the link of the host has a hundredth of its rate; the result."""
        run = self.start(*words)
        self.addCleanup(self.lab.set_rate, BAD, 1000)
        self.lab.set_rate(BAD, 10)
        result = run.wait()
        self.assertEqual(result.status, 0, run.text())
        return result
