"""Runs that end: with which status, and how long after their last line; shared by the short and the long test."""

from lab_tests import DIGITS, PROGRAM, LabTest, said_by_ranks, sets

EPOCHS = 2
REQUEUE = 75
# Status: the line after which such a run has nothing left to do but to end.
LAST_LINES = {0: rf"^ +{EPOCHS}/{EPOCHS} ", REQUEUE: "^Stopped by the time limit"}
LIMIT = 15  # seconds from that line to the end
DONE = sets(training__epochs=EPOCHS)
STOPPED = sets(training__epochs=100000, training__time_limit=1)
REFUSED = sets(data__path="/nowhere")


class EndRuns(LabTest):
    HOSTS = 4

    def by_launcher(self, words, ranks_per_host, environment=None):
        run = self.lab.start(self.lab.launched(self.train(words), ranks_per_host), self.folder, environment)
        result = run.wait()
        self.lab.end_all()
        return run, result

    def by_srun(self, words, ranks_per_host, environment=None):
        run = self.slurm_cluster().start(self.train(words), ranks_per_host, self.folder, environment)
        return run, run.wait()

    @staticmethod
    def train(words):
        return [PROGRAM, "train", DIGITS, "--overwrite", *words]

    def check_ends(self, launch, words, status, runs, ranks_per_host=1, limit=LIMIT, environment=None):
        for number in range(runs):
            run, result = launch(words, ranks_per_host, environment)
            self.assertEqual(result.status, status, f"run {number + 1} of {runs}\n{run.text()}")
            if status == 0:
                self.assertEqual(said_by_ranks(result.err), [])
            if status in LAST_LINES:
                self.assertLess(result.seconds - run.when(LAST_LINES[status]), limit, f"run {number + 1}\n{run.text()}")
