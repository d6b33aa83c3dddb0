#!/usr/bin/env python3
"""Jobs whose time is nearly over, on a real Slurm: stopped by Slurm's signals or by the clock, queued again and resumed.

They wait a minute for it, most of it asleep, so that ctest runs other tests beside this one.
"""

import os
import re

from cluster import DIGITS, PROGRAM, main
from stopped_jobs import ENDLESS, RANKS, StoppedJobs


class Limits(StoppedJobs):
    def check_goes_on(self, job):
        """It was queued again, and trains on; then it is cancelled. Its record and its log."""
        def resumed(records):
            return records[0]["Restarts"] != "0" and "Resumed from" in self.read(f"halograd-cpu-{job}.out")
        self.cluster.wait(job, resumed)
        self.cluster.command("scancel", job, attempts=20)
        record, = self.cluster.wait(job)
        self.assertEqual(record["JobState"], "CANCELLED", self.outputs())
        self.assertTrue(os.path.exists(self.path(f".halograd-job-{job}")), "the notes stay, as docs/slurm.md says")
        return record, self.read(f"halograd-cpu-{job}.out")

    def check_stopped_in_time(self, job, folder, reason):
        record, log = self.check_goes_on(job)
        self.check_log(log, reason, record["Restarts"])
        self.assertTrue(os.path.exists(self.path(folder, "checkpoint.h5")))

    def program(self, name, text):
        """A program that a job runs in the place of halograd."""
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\nexec {PROGRAM} \"$@\"\n")
        os.chmod(path, 0o755)
        return path

    def test_slurm_s_own_signal_and_the_time_limit(self):
        # Slurm looks at its limits twice a minute: it signals 20 to 50 s before the end of a job that asks for 20 s. Of a
        # job that asks for more that could be its first second, before the program catches signals.
        signalled = self.train("cpu.sbatch", *ENDLESS, options=["--time=1", "--signal=USR1@20"])
        # Without the line that asks for a signal, the clock alone stops the other.
        with open(self.script("cpu.sbatch"), encoding="utf-8") as file:
            text, lines = re.subn(r"^#SBATCH --signal.*\n", "", file.read(), flags=re.MULTILINE)
        self.assertEqual(lines, 1)
        with open(self.path("silent.sbatch"), "w", encoding="utf-8") as file:
            file.write(text)
        limited = self.submit(*RANKS, "--time=1", "silent.sbatch", DIGITS, *ENDLESS, "--set", "name=limited")
        # Without the clock either, Slurm ends it at the limit: by SIGTERM, or by SIGKILL where it hangs.
        timeless = self.program("timeless", "unset SLURM_JOB_END_TIME")
        late = self.submit(*RANKS, "--time=1", "silent.sbatch", DIGITS, *ENDLESS, "--set", "name=late", HALOGRAD_CPU_PROGRAM=timeless)
        hanging = self.program("hanging", "trap '' TERM\n[ $SLURM_RESTART_COUNT ] || sleep 1000")
        hung = self.submit(*RANKS, "--time=1", "silent.sbatch", DIGITS, "--set", "name=hung", HALOGRAD_CPU_PROGRAM=hanging)
        self.check_stopped_in_time(signalled, "runs/digits", "SIGUSR1")
        self.check_stopped_in_time(limited, "runs/limited", "the time limit")
        _, log = self.check_goes_on(late)
        self.assertRegex(log, r"\njob \d+: its time is over, back into the queue\n(?s:.)*\nResumed from .* [1-9]\d* steps in total\n")
        record, = self.ends(hung)
        log = self.read(f"halograd-cpu-{hung}.out")
        self.assertEqual((record["Restarts"], log.count("its time is over, back into the queue\n")), ("1", 1), log)
        self.assertRegex(log, r"attempt 2 of 3 from step 0: (?s:.)*\nDone\n")


if __name__ == "__main__":
    main()
