#!/usr/bin/env python3
"""Jobs whose time is nearly over, on a real Slurm: stopped by Slurm's signal or by the clock, queued again and resumed.

They wait a minute for it, most of it asleep, so that ctest runs other tests beside this one.
"""

import os
import re

from cluster import DIGITS, main
from stopped_jobs import ENDLESS, RANKS, StoppedJobs


class Limits(StoppedJobs):
    def check_goes_on(self, job, folder, reason):
        """It was stopped in time, was queued again, and trains on; then it is cancelled."""
        def resumed(records):
            return records[0]["Restarts"] != "0" and "Resumed from" in self.read(f"halograd-cpu-{job}.out")
        self.cluster.wait(job, resumed)
        self.cluster.command("scancel", job, attempts=20)
        record, = self.cluster.wait(job)
        self.assertEqual(record["JobState"], "CANCELLED", self.outputs())
        self.assertTrue(os.path.exists(self.path(f".halograd-job-{job}")), "the notes stay, as docs/slurm.md says")
        self.check_log(self.read(f"halograd-cpu-{job}.out"), reason, record["Restarts"])
        self.assertTrue(os.path.exists(self.path(folder, "checkpoint.h5")))

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
        self.check_goes_on(signalled, "runs/digits", "SIGUSR1")
        self.check_goes_on(limited, "runs/limited", "the time limit")


if __name__ == "__main__":
    main()
