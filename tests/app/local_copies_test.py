#!/usr/bin/env python3
"""Runs that go on from copies on their nodes' disks: a folder for each node stands for its disk."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import h5py

from heal_test import HEALING, job_on, write_commands
from program import MPIEXEC, PROGRAM, ProgramTest, kill_ranks, launcher_says, main, ranks_below, sets
from resume_test import RUN_FILE, SGD
from stop_test import REQUEUE

EPOCH = 9  # steps of RUN_FILE
# Averager none: nodes whose ranks exchange halos measure their network at each start, which costs more than the run.
COPIES = sets(training__epochs=4, output__local_steps=2, output__local_folder="$DISK", output__checkpoint_epochs=0,
              averager__name="none")
SLOW = sets(comm__inject__compute_us=100000)
HALOS = sets(averager__name="neighbour")
FREE = [*HALOS, *sets(averager__staleness=-1)]


class LocalCopies(ProgramTest):
    """Two nodes, of one rank each."""

    def setUp(self):
        super().setUp()
        if not launcher_says(["HYDRA"]):
            self.skipTest("SKIPPED: no launcher that gives each rank its own environment and node")
        self.train = ["train", self.write("run.toml", RUN_FILE + SGD), *COPIES, "--resume"]

    disks = "disk"  # another name: other nodes

    def disk(self, node):
        return self.path(f"{self.disks}{node}")

    def copies(self, node):
        """Names in the run's folder on a node."""
        folders = os.listdir(self.disk(node)) if os.path.exists(self.disk(node)) else []
        return sorted(name for folder in folders for name in os.listdir(os.path.join(self.disk(node), folder)))

    def command(self, *words, ranks=2):
        parts = [["-n", "1", "-env", "DISK", self.disk(rank), PROGRAM, *map(str, self.train), *map(str, words)] for rank in range(ranks)]
        return [*MPIEXEC, *sum(([":", *part] for part in parts), [])[1:]]

    def environment(self, ranks=2):
        return {**os.environ, "MPIR_CVAR_NUM_CLIQUES": str(ranks)}

    def on_nodes(self, *words, ranks=2):
        result = subprocess.run(self.command(*words, ranks=ranks), cwd=self.folder, env=self.environment(ranks), capture_output=True,
                                encoding="utf-8", timeout=120, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    @contextlib.contextmanager
    def running(self, *words, step=12, command=None, **variables):
        """A run on two nodes, after all copies of this step or a later one; killed at the end where it still runs. `command`:
        what starts it, in an environment with these variables."""
        newest = lambda: max([int(name.split("_")[1]) for node in (0, 1) for name in self.copies(node)], default=0)
        with open(self.path("running.txt"), "w", encoding="utf-8") as out, \
                subprocess.Popen(command or self.command(*SLOW, *words), cwd=self.folder, env=self.environment() | variables,
                                 stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                end = time.monotonic() + 60
                while newest() < step + 2 and process.poll() is None:
                    self.assertLess(time.monotonic(), end, "no copies")
                    time.sleep(0.02)
                self.assertIsNone(process.poll(), "the run ended by itself")
                yield process
            finally:
                if process.poll() is None:
                    kill_ranks(process.pid)
                    os.killpg(process.pid, signal.SIGKILL)

    def killed(self, *words, step=12):
        with self.running(*words, step=step):
            pass

    def check_resumed(self, out):
        step = int(re.search(r"Made \S*step_(\d+)\.h5 of copies on the nodes \(output\.local_steps\), later than any checkpoint\n", out).group(1))
        self.assertGreaterEqual(step, 12)
        self.assertRegex(out, rf"Resumed from \S*step_{step:08d}\.h5: ")
        self.assertEqual([self.copies(node) for node in (0, 1)], [[], []], "a run that is done removes its copies")

    def test_a_lost_node_and_the_bits_of_a_straight_run(self):
        out = self.on_nodes(*HALOS, *sets(name="gold"))
        self.assertRegex(out, r"\n  copies +every 2 steps in \$DISK of the node, and of another one\n")
        self.assertEqual([self.copies(node) for node in (0, 1)], [[], []])
        for lost in (0, 1):
            self.killed(*HALOS, *sets(name="silver"))
            shutil.rmtree(self.disk(lost))
            self.check_resumed(self.on_nodes(*HALOS, *sets(name="silver", output__checkpoint_epochs=4)))
            with h5py.File(self.path("runs/gold/metrics.h5")) as gold, h5py.File(self.path("runs/silver/metrics.h5")) as silver:
                self.assertEqual(gold["step/loss"][()].tolist(), silver["step/loss"][()].tolist())
                self.assertEqual(gold["epoch/test_loss"][()].tolist(), silver["epoch/test_loss"][()].tolist())
            shutil.rmtree(self.path("runs/silver"))

    def test_a_job_that_heals(self):
        """A rank dies, and its node's disk is emptied: jobscripts/heal.sh starts the ranks again, which go on from the other's."""
        run = self.command(*SLOW, *sets(name="healed", training__epochs=3))
        write_commands(self.write, attempt=f"""
            unset "${{!SLURM_@}}" # MPICH's launcher would ask Slurm
            status=0
            {shlex.join(run)} || status=$?
            rm -rf {self.disk(1)}
            exit $status""")
        with self.running(command=HEALING, **job_on(2, self.folder), SLURM_JOB_NODELIST="a,b") as job:
            self.assertFalse(os.path.lexists(self.path("runs/healed/checkpoint.h5")))
            os.kill(max(ranks_below(job.pid)), signal.SIGKILL)
            self.assertEqual(job.wait(60), 0)
        with open(self.path("running.txt"), encoding="utf-8") as file:
            out = file.read()
        self.assertRegex(out, r"\njob 7: attempt 2 of 3 from step 0: 4 ranks on 2 of 2 nodes\n")
        self.check_resumed(out[out.index("job 7: attempt 2"):])
        with h5py.File(self.path("runs/healed/metrics.h5")) as file:
            self.assertEqual(file["epoch/steps"][()].tolist(), [EPOCH * epoch for epoch in (1, 2, 3)])

    def test_one_node_is_left(self):
        self.killed()
        shutil.rmtree(self.disk(1))
        out = self.on_nodes(ranks=1)
        self.check_resumed(out)
        self.assertIn("NOTE: the checkpoint is from a run on 2 ranks, but this job has 1", out)

    def test_both_nodes_are_lost(self):
        self.on_nodes("--stop-after", 1, *sets(output__checkpoint_epochs=1))
        self.killed()
        shutil.rmtree(self.disk(0))
        shutil.rmtree(self.disk(1))
        self.assertRegex(self.on_nodes(), rf"Resumed from \S*step_{EPOCH:08d}\.h5: ")

    def test_copies_of_another_past(self):
        """Those of step 20 are out of reach when the run goes on from step 9, and come back when it is at step 12."""
        self.on_nodes("--stop-after", 1, *sets(output__checkpoint_epochs=1))
        self.killed(step=20)
        self.disks = "other"
        self.killed()
        self.disks = "disk"
        self.assertRegex(self.on_nodes(), rf"Resumed from \S*step_{EPOCH:08d}\.h5: ")

    def test_a_damaged_checkpoint_of_the_same_step(self):
        """It is replaced by the one that is made of the copies, which is not set aside in its place."""
        self.on_nodes("--stop-after", 1, *sets(output__checkpoint_epochs=1))
        self.killed()
        for name in self.copies(0):
            self.write(f"runs/run/checkpoints/step_{int(name.split('_')[1]):08d}.h5", "damaged")
        out = self.on_nodes(*sets(output__keep=9))
        made = re.search(r"Made (\S*\.h5) of copies on the nodes", out).group(1)
        self.assertIn(f"Skipped a damaged checkpoint: {made}: ", out)
        self.assertIn(f"Resumed from {made}: ", out)
        self.succeed("inspect", made)

    def test_a_run_whose_ranks_wait_for_nobody(self):
        words = [*FREE, *sets(name="silver")]
        self.killed(*words)
        shutil.rmtree(self.disk(0))
        self.check_resumed(self.on_nodes(*words))
        with h5py.File(self.path("runs/silver/metrics.h5")) as file:
            self.assertEqual(file["epoch/steps"][()].tolist(), [EPOCH * epoch for epoch in (1, 2, 3, 4)])

    def test_a_stop_keeps_the_state_in_the_run_folder(self):
        for name, words in (("lockstep", HALOS), ("free", FREE)):
            words = [*words, *sets(name=name, output__local_steps=1)]
            with self.running(*words, step=4) as process:
                os.kill(ranks_below(process.pid)[0], signal.SIGUSR1)
                self.assertEqual(process.wait(60), REQUEUE)
            self.assertEqual([self.copies(node) for node in (0, 1)], [[], []])
            self.assertRegex(self.on_nodes(*words), r"\nResumed from \S*/checkpoints/step_\d+\.h5: ")

    def test_a_disk_that_cannot_be_written(self):
        """The run goes on from its checkpoint, and says so; it neither begins again nor without the copies that it is to make."""
        self.on_nodes("--stop-after", 1, *sets(output__checkpoint_epochs=1))
        self.killed()
        shutil.rmtree(self.disk(1))
        self.write("disk1", "a file")
        out = self.on_nodes(*sets(output__checkpoint_epochs=2))
        self.assertRegex(out, r"No checkpoint could be made of copies on the nodes: output\.local_folder: \S*disk1/halograd-\S* cannot be made: ")
        self.assertRegex(out, rf"\nResumed from \S*step_{EPOCH:08d}\.h5: ")
        self.assertRegex(out, r"  no copies on the nodes: output\.local_folder: \S*disk1/")
        result = self.run_program(*self.train, *sets(name="other"), ranks=2, environment={"DISK": self.path("disk1")})
        self.check_refused(result, "output.local_folder: ", "disk1/halograd-", "cannot be made")
        result = self.run_program(*self.train, *sets(name="other"), ranks=2)
        self.check_refused(result, 'output.local_folder is "$DISK", but the environment variable DISK is not set')


if __name__ == "__main__":
    main()
