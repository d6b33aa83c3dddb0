#!/usr/bin/env python3
"""Jobs whose ranks die on hosts that a real network joins: they end by themselves, with every step trained."""

import os
import random
import re
import shutil
import signal

from lab_cluster import LabCluster
from lab_tests import main
from killed_jobs import KilledJobs  # noqa: I100: lab_cluster says where it is

HOSTS = 3
EPOCHS = 40  # leaves seconds of training after the second death
DISK = "/dev/shm"  # which each host has for itself
CHECKPOINT = 80  # steps: half of the run


class HealingOverANetwork(KilledJobs):
    @classmethod
    def start_cluster(cls):
        return LabCluster(HOSTS)

    def test_two_ranks_die(self):
        chance = random.Random(24)
        job = self.train(f"--nodes={HOSTS}", "--ntasks-per-node=1", epochs=EPOCHS)
        victims = chance.sample(self.nodes_of(job), 2)
        for attempt, node in enumerate(victims, start=1):
            self.kill(job, node, attempt)
        record, = self.ends(job)
        log = self.log(job)
        for node in victims:
            self.assertRegex(log, rf"rank \d on {node} died")
        self.assertEqual(len(re.findall(rf"attempt \d of 3 from step \d+: {HOSTS} ranks on {HOSTS} of {HOSTS} nodes", log)), 2, log)
        self.assertEqual(record["Restarts"], "0", log)
        self.check_run(HOSTS, epochs=EPOCHS)

    def test_a_rank_and_the_disk_of_its_node(self):
        """The job goes on from the copies on the disks of the other nodes, which are newer than its checkpoint."""
        job = self.train(f"--nodes={HOSTS}", "--ntasks-per-node=1", epochs=EPOCHS, checkpoint_steps=CHECKPOINT,
                         words=["--set", "output.local_steps=3", "--set", f"output.local_folder={DISK}",
                                "--set", "output.checkpoint_epochs=0"])
        victim = random.Random(25).choice(self.nodes_of(job))
        self.wait_for(job, lambda: os.path.exists(self.path("runs/digits/checkpoint.h5")), "a checkpoint")
        process, = [number for number, place in self.programs_of(job).values() if place == victim]
        disk = os.open(f"/proc/{process}/root{DISK}", os.O_RDONLY)  # leads there when the process is gone
        self.addCleanup(os.close, disk)
        folder = f"/proc/self/fd/{disk}/{self.read('runs/digits/local_copies').strip()}"
        newest = lambda: max((int(re.match(r"step_(\d+)_rank_\d+_of_3\.h5$", name).group(1))
                              for name in os.listdir(folder) if name.endswith(".h5")), default=0)
        self.wait_for(job, lambda: newest() >= CHECKPOINT + 5, "copies after the checkpoint")
        os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder)
        record, = self.ends(job)
        log = self.log(job)
        self.assertEqual(record["Restarts"], "0", log)
        self.assertRegex(log, rf"rank \d on {victim} died")
        made = re.search(r"Made \S*step_(\d+)\.h5 of copies on the nodes \(output\.local_steps\), later than \S*step_(\d+)\.h5\n", log)
        self.assertIsNotNone(made, log)
        self.assertGreater(int(made.group(1)), CHECKPOINT, log)
        self.assertEqual(int(made.group(2)), CHECKPOINT, log)
        self.assertRegex(log, rf"Resumed from \S*step_{made.group(1)}\.h5: ")
        self.check_run(HOSTS, epochs=EPOCHS)


if __name__ == "__main__":
    main()
