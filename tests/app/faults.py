"""Jobs that are killed at any moment while they write a checkpoint every few steps; shared by the short and the long test."""

import contextlib
import os
import random
import re
import signal
import subprocess
import time

from program import TIMEOUT, ProgramTest, launched, ranks_below, sets
from resume_test import RUN_FILE, SGD

REPORTED = re.compile(r"^  checkpoint \S*step_(\d+)\.h5", re.MULTILINE)
RESUMED = re.compile(r"^Resumed from \S+: .* (\d+) steps in total", re.MULTILINE)
EPOCH = 9  # steps of RUN_FILE


class FaultTest(ProgramTest):
    def start(self, words, ranks):
        with open(self.path("log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(launched(words, ranks), cwd=self.folder, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def log(self):
        with open(self.path("log"), encoding="utf-8") as log:
            return log.read()

    def until(self, process, pattern, count=1):
        """Waits for lines in the output, or for the end of the run."""
        end = time.monotonic() + TIMEOUT
        while process.poll() is None and len(re.findall(pattern, self.log(), re.MULTILINE)) < count:
            self.assertLess(time.monotonic(), end, f"no {count} times '{pattern}': {self.log()}")
            time.sleep(0.005)

    def check_kills(self, kills, ranks, seed, every=1):
        chance = random.Random(seed)
        # Each kill comes about 2.5 * every + 7 steps of 10 ms after the start, all of them before the end.
        epochs = kills * (3 * every + 8) // EPOCH + 1
        run = self.write("run.toml", RUN_FILE + SGD)
        words = ["train", run, *sets(training__epochs=epochs, output__print_steps=0)]
        self.succeed(*words, *sets(name="gold", output__checkpoint_epochs=0, output__checkpoint_steps=EPOCH * epochs),
                     ranks=ranks)
        silver = [*words, *sets(name="silver", output__checkpoint_steps=every, comm__inject__compute_us=10000), "--resume"]
        reported = found = written = landed = 0
        for kill in range(kills + 1):
            process = self.start(silver, ranks)
            victims = []
            if kill < kills:
                self.until(process, REPORTED.pattern, count=chance.randint(1, 4))
                time.sleep(chance.uniform(0, 0.05))
                victims = ranks_below(process.pid)
                for victim in victims if kill % 2 else chance.sample(sorted(victims), min(1, len(victims))):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
            process.wait(TIMEOUT)
            log = self.log()
            label = f"seed {seed}, kill {kill}\n{log}"
            if "\nDone" not in log:  # mpiexec of MPICH 4.2 may end with status 0 all the same
                self.assertNotEqual(victims, [], f"it ended by itself: {label}")
                self.assertNotRegex(log, r"(?m)^halograd: (?!rank \d+ has died)", label)
                landed += 1
            resumed = RESUMED.search(log)
            found = int(resumed.group(1)) if resumed else 0
            self.assertGreaterEqual(found, reported, f"a checkpoint that was reported is lost: {label}")
            self.assertNotIn("damaged", log, label)
            steps = [int(step) for step in REPORTED.findall(log)]
            written += len(steps)
            reported = max([found, *steps])
        self.assertGreaterEqual(landed, kills - 1, "kills that came after the end")
        self.assert_same_runs(f"seed {seed}")
        leftovers = [name for name in os.listdir(self.path("runs/silver/checkpoints")) if "partial" in name]
        self.assertEqual(leftovers, [])
        print(f"{landed} kills on {ranks} ranks, {written} checkpoints reported and none lost")
