#!/usr/bin/env python3
"""How the first job of jobscripts/sweep.sbatch submits the one for the table, with commands in the place of Slurm's.
tests/slurm/jobscripts_test.py has real ones."""

import os
import shutil
import tempfile
import unittest

from program import SOURCE, execute, main

COMMANDS = {"sbatch": 'echo "$*" >>submitted; exit "$SBATCH_STATUS"', "scontrol": "echo a", "squeue": "echo a"}


class Sweep(unittest.TestCase):
    def sweep(self, status, **variables):
        """What the job says and the options of its sbatch, which ends with a status; the training has to be started in any case."""
        folder = tempfile.mkdtemp(prefix="halograd_sweep_")
        self.addCleanup(shutil.rmtree, folder)
        files = {name: "#!/usr/bin/env bash\n" + text for name, text in COMMANDS.items()}
        for name, text in {**files, "site.sh": 'launch() { echo "launched: $*"; }\n'}.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        environment = {
            "PATH": f"{folder}:{os.environ['PATH']}", "HALOGRAD_HOME": SOURCE, "HALOGRAD_SITE": os.path.join(folder, "site.sh"),
            "HALOGRAD_CPU_PROGRAM": "true", "SBATCH_STATUS": str(status), "SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7",
            "SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "4",
            "SLURM_JOB_NODELIST": "a", "SLURM_JOB_PARTITION": "small", "SLURM_JOB_END_TIME": "2000000000", **variables}
        result = execute(["bash", os.path.join(SOURCE, "jobscripts", "sweep.sbatch"), "a.toml"], folder, environment)
        self.assertEqual(result.status, 0, result.out + result.err)
        self.assertIn("launched: true train a.toml --set output.folder=runs/sweep-7 --set name=none", result.out)
        with open(os.path.join(folder, "submitted"), encoding="utf-8") as file:
            return result.err, file.read()

    def test_the_table_runs_where_the_sweep_runs(self):
        said, options = self.sweep(0, SLURM_JOB_ACCOUNT="me")
        self.assertNotIn("no table", said)
        self.assertIn("--account=me --partition=small ", options)
        self.assertIn(" --dependency=afterany:7 ", options)
        self.assertNotIn("--account", self.sweep(0)[1])

    def test_no_table_is_no_reason_not_to_train(self):
        said, _ = self.sweep(1)
        self.assertIn(f"when all jobs have ended: sbatch {SOURCE}/jobscripts/sweep_table.sbatch runs/sweep-7\n", said)


if __name__ == "__main__":
    main()
