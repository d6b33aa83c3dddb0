#!/usr/bin/env python3
"""A rank is killed, or falls silent, while others put, flush, wait or sum: every other one ends in time, says which rank it
was, and asks to be queued again."""

import os
import re
import signal
import socket
import subprocess
import time
import unittest

from program import ASLEEP, IS_MPICH, IS_OPEN_MPI, MPIEXEC, TIMEOUT, ProgramTest, launched, main, ranks_below, sets
from inject_test import RUN_FILE

RANKS = 3
KILLED = 1
LIMIT = 30  # seconds
SILENCE, GRACE = 15, 2  # seconds, of lib/mpi/watchdog.hpp
REQUEUE = 75
LET_LIVE = "-disable-auto-cleanup" if IS_MPICH else "--enable-recovery"
RANK = "PMI_RANK" if IS_MPICH else "OMPI_COMM_WORLD_RANK"


def rank_of(process):
    with open(f"/proc/{process}/environ", "rb") as file:
        found = re.search(rf"\b{RANK}=(\d+)".encode(), file.read())
    return int(found.group(1))


@unittest.skipUnless(IS_MPICH or IS_OPEN_MPI, "needs a launcher that lets the other ranks live: MPICH's or Open MPI's")
class Death(ProgramTest):
    def start(self, environment=None, **settings):
        """A job that trains, mostly asleep, once it has begun."""
        run = self.write("run.toml", RUN_FILE)
        words = launched(["train", run, "--overwrite", *ASLEEP, *sets(training__epochs=1000000, **settings)], 0)
        script = self.write("rank.sh", f'trap : USR1 TERM\n"$@"\necho $? > status.${RANK}\n')
        launch = [*MPIEXEC, LET_LIVE, "-n", str(RANKS), "bash", script, *words]
        with open(self.path("log"), "w", encoding="utf-8") as log:
            job = subprocess.Popen(launch, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True,
                                   env=os.environ | {"HALOGRAD_JOB_NOTES": self.path("notes")} | (environment or {}))
        self.addCleanup(lambda: job.poll() is None and os.killpg(job.pid, signal.SIGKILL))
        end = time.monotonic() + TIMEOUT
        while "consensus" not in self.log() and time.monotonic() < end and job.poll() is None:
            time.sleep(0.05)
        return job

    def check(self, environment=None, fate=signal.SIGKILL, crash=None, **settings):
        """One rank is killed, and the last one crashes at once if so asked; all others end with the status that requeues."""
        job = self.start(environment, **settings)
        victims = [process for process in ranks_below(job.pid) if rank_of(process) == KILLED]
        self.assertEqual(len(victims), 1, self.log())
        time.sleep(0.5)
        last = [process for process in ranks_below(job.pid) if rank_of(process) == RANKS - 1 and crash]
        for process, its_fate in [(victims[0], fate), *((process, crash) for process in last)]:
            os.kill(process, its_fate)
        begin = time.monotonic()
        others = [rank for rank in range(RANKS) if rank != KILLED]
        while time.monotonic() - begin < LIMIT and not all(self.status(rank) for rank in others):
            time.sleep(0.1)
        for rank in others:
            self.assertTrue(self.status(rank), f"rank {rank} lives on: {self.log()}")
            self.assertEqual(int(self.status(rank)), REQUEUE, self.log())
        self.assertIn(f"halograd: rank {KILLED} has died", self.log())
        for rank in others:
            self.assertNotIn(f"halograd: rank {rank} has died", self.log())
        with open(self.path("notes"), encoding="utf-8") as file:  # for the job's script
            self.assertEqual(set(file.read().splitlines()), {"running", f"died {KILLED} {socket.gethostname()}"})
        if fate == signal.SIGSTOP:
            os.kill(victims[0], signal.SIGKILL)
        job.wait(TIMEOUT)

    def status(self, rank):
        """What the rank's process ended with; nothing while the process runs, or its shell has yet to write it."""
        path = self.path(f"status.{rank}")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def log(self):
        with open(self.path("log"), encoding="utf-8") as log:
            return log.read()

    def test_synchronous_by_store(self):
        self.check()

    def test_synchronous_by_put(self):
        self.check(comm__force_put=True)

    def test_stale_by_put(self):
        self.check(averager__staleness=2, comm__slots=3, comm__force_put=True)

    def test_nobody_waits_for_anybody(self):
        self.check(averager__staleness=-1, comm__slots=3)

    def test_an_abort_that_follows(self):
        """As UCX 1.18 calls it where a message meets the dead process."""
        self.check(crash=signal.SIGABRT)

    def test_a_crash_that_follows(self):
        """As of MPICH 5 on UCX where a connection to the dead process is closed."""
        self.check(crash=signal.SIGSEGV)

    def test_allreduce(self):
        self.check(averager__name="allreduce")

    @unittest.skipUnless(IS_MPICH, "MPICH's switch")
    def test_between_nodes(self):
        """MPICH is told that each rank has a node of its own: then they only have TCP to know of each other."""
        self.check(environment={"MPIR_CVAR_NOLOCAL": "1"})

    @unittest.skipUnless(IS_MPICH, "MPICH's switch")
    def test_a_silent_node(self):
        """Nothing ends, so that no launcher notices: a stopped rank stands for a host that no longer answers."""
        self.check(environment={"MPIR_CVAR_NOLOCAL": "1"}, fate=signal.SIGSTOP)

    @unittest.skipUnless(IS_MPICH, "MPICH's switch")
    def test_a_job_that_stands_still(self):
        """Longer than a node may be silent: a suspended job, or a virtual machine that its host stops, goes on."""
        job = self.start({"MPIR_CVAR_NOLOCAL": "1"})
        ranks = ranks_below(job.pid)
        self.assertEqual(len(ranks), RANKS, self.log())
        for fate, seconds in ((signal.SIGSTOP, SILENCE + 2), (signal.SIGCONT, GRACE + 3)):
            for process in ranks:
                os.kill(process, fate)
            time.sleep(seconds)
        alive = ranks_below(job.pid)
        for process in alive:
            os.kill(process, signal.SIGKILL)
        job.wait(TIMEOUT)
        self.assertEqual(sorted(alive), sorted(ranks), self.log())


if __name__ == "__main__":
    main()
