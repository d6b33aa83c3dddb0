#!/usr/bin/env python3
"""What halograd jobscript writes is a job that a real Slurm runs."""

import h5py

from cluster import DIGITS, MPI, PROGRAM, TWO_GPUS, ClusterTest, execute, main


class WrittenScript(ClusterTest):
    def run_script(self, *words):
        # a run file of its own: the script names the run file alone
        with open(DIGITS, encoding="utf-8") as file:
            text = file.read().replace("epochs = 20", "epochs = 2").replace('"digits.h5"', f'"{DIGITS[:-5]}.h5"')
        with open(self.path("small.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        result = execute([PROGRAM, "jobscript", "--config", "small.toml", "--time", "5", "--partition", "main",
                          "--mpi", MPI, *words, "--output", "job.sbatch"], self.folder)
        self.assertEqual((result.status, result.err), (0, ""))
        job = self.submit("job.sbatch")
        record, = self.ends(job)
        log = self.read(f"digits-{job}.out")
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (4, 2))
        return record, log

    def test_cores(self):
        record, log = self.run_script("--nodes", "2", "--cores-per-node", "4")
        self.assertEqual([record[key] for key in ("NumNodes", "NumTasks", "CPUs/Task", "TimeLimit", "Partition")],
                         ["2", "4", "2", "00:05:00", "main"])
        self.assertRegex(log, r"\n  ranks +4 on 2 nodes\n")
        self.assertRegex(log, r", 2 threads per rank\n")

    def test_gpus(self):
        record, log = self.run_script("--nodes", "2", "--cores-per-node", "2", "--gpus-per-node", "2")
        self.assertEqual([record[key] for key in ("NumTasks", "CPUs/Task")], ["4", "1"])
        self.assertIn(record["TresPerNode"], TWO_GPUS)
        self.assertRegex(log, r"\n  ranks +4 on 2 nodes\n")


if __name__ == "__main__":
    main()
