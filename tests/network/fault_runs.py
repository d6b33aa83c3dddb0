"""A host that is cut off, or whose link is slow all of a sudden: it is named, passed over, or the job asks to be queued again;
shared by the short and the long test."""

import os
import time

import h5py
import numpy as np

from lab_tests import DIGITS, PROGRAM, LabTest, cluster, sets

REQUEUE = 75
LIMIT = 60  # seconds from what befalls the host until it is named or passed over, or the others have ended
BAD = 1  # the host; one rank on each, so that its rank as well
RATE = 100  # Mbit/s of each host's link: over a hundredth of that a replica takes a second and more
ENDLESS = sets(training__epochs=100000)
SHORT = sets(training__epochs=3, training__batch=8, output__checkpoint_epochs=0)
# With a sum long enough for the ring of four ranks.
RING = ["--set", 'network.layer=[{type = "flatten"}, {type = "dense", channels = 1024}, {type = "relu"}, '
                 '{type = "dense", channels = 10}]']


class FaultRuns(LabTest):
    HOSTS, OPTIONS = 4, {"rate_mbit": RATE}

    def start(self, *words):
        """A run that has its first epoch behind it; each rank leaves its process and its status in files."""
        script = self.write("rank.sh", 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\n"$@" &\necho $! > process.$rank\n'
                            'wait $!\necho $? > status.$rank\n')
        command = self.lab.launched(["sh", script, PROGRAM, "train", DIGITS, "--overwrite", *words])
        self.lab.end_all()  # of a run before
        for rank in self.statuses():
            os.remove(self.path(f"status.{rank}"))
        run = self.lab.start(command, self.folder)
        run.until("^ *1/")
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
        run = self.start(*ENDLESS, *words)
        fate()
        begin = time.monotonic()
        others = [rank for rank in range(self.HOSTS) if rank != BAD]
        while time.monotonic() - begin < LIMIT and not all(self.statuses().get(rank) for rank in others):
            time.sleep(0.2)
        for rank in others:
            self.assertEqual(self.statuses().get(rank), str(REQUEUE), f"rank {rank}\n{run.text()}")
        return run

    def start_and_slow_down(self, *words, bad=BAD):
        """A run in which the host's link has a hundredth of its rate after the first epoch."""
        run = self.start(*words)
        self.addCleanup(self.lab.set_rate, bad, RATE)
        self.lab.set_rate(bad, RATE // 100)
        return run

    def check_named(self, *words, bad=BAD):
        run = self.start_and_slow_down(*ENDLESS, *sets(comm__report_seconds=0.5), *words, bad=bad)
        begin = run.seconds()
        run.until(rf"waits for rank {bad}:", begin + LIMIT)
        print(f"named after {run.seconds() - begin:.1f} s")
        self.lab.end_all()
        self.lab.set_rate(bad, RATE)

    def check_passed_over(self, *words):
        """The others make many steps for each message that they have of it, and epochs go on."""
        run = self.start_and_slow_down(*SHORT, *words)
        run.until("^ *2/", run.seconds() + LIMIT)
        result = run.wait()
        self.lab.set_rate(BAD, RATE)
        self.assertEqual(result.status, 0, run.text())
        with h5py.File(self.path("runs/digits/metrics.h5"), "r") as file:
            edge = {name: column[()] for name, column in file["edge"].items()}
            makers = file["step/rank"][file["epoch/steps"][-2]:]
        late = (edge["epoch"] == 2) & (edge["from"] == BAD)
        for to, halos in zip(edge["to"][late], edge["halos"][late]):
            steps = np.count_nonzero(makers == to)
            print(f"rank {to} made {steps} steps and had {halos} halos of rank {BAD}")
            self.assertLess(8 * halos, steps, run.text())
        return edge
