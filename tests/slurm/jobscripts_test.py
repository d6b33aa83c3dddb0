#!/usr/bin/env python3
"""Every script of jobscripts/, submitted to a real Slurm: states, outputs, and what the runs leave."""

import csv
import glob
import os
import re

import h5py

from cluster import DIGITS, LAUNCHER_SITE, PROGRAM, SYNTHETIC, TWO_GPUS, ClusterTest, main, read_metrics

SMALL = ["--set", "training.epochs=2", "--set", "training.threads=1"]


class Jobscripts(ClusterTest):
    def check_run(self, folder, ranks, epochs=2):
        with h5py.File(self.path(folder, "checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (ranks, epochs))
        self.assertEqual(len(read_metrics(self.path(folder, "metrics.h5"))["epoch/seconds"]), epochs)

    def test_cpu(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=2", self.script("cpu.sbatch"), DIGITS, *SMALL)
        record, = self.ends(job)
        self.assertEqual((record["NumNodes"], record["NumTasks"], record["CPUs/Task"]), ("2", "4", "2"))
        log = self.read(f"halograd-cpu-{job}.out")
        self.assertIn(f"job {job} on node[1-2], start 1: 4 ranks, 2 cores each\n", log)
        self.assertRegex(log, r"\n  ranks +4 on 2 nodes\n")
        self.assertRegex(log, r"\n +2/2 ")
        self.check_run("runs/digits", 4)

    def check_gpu(self, backend):
        script = self.script(f"{backend}.sbatch")
        # The GPUs are those that the test nodes claim to have; the program is the one for cores.
        job = self.submit("--nodes=2", "--gpus-per-node=2", "--ntasks-per-node=2", "--cpus-per-task=1", script, DIGITS, *SMALL)
        record, = self.ends(job)
        self.assertEqual(record["NumTasks"], "4")
        self.assertIn(record["TresPerNode"], TWO_GPUS)
        log = self.read(f"halograd-{backend}-{job}.out")
        self.assertIn(f"job {job} on node[1-2], start 1: 4 ranks, 1 cores each, 2 GPUs on a node\n", log)
        self.check_run("runs/digits", 4)

    def test_cuda(self):
        self.check_gpu("cuda")

    def test_hip(self):
        self.check_gpu("hip")

    def test_heterogeneous(self):
        job = self.submit("--ntasks-per-node=2", "--cpus-per-task=1", ":", "--ntasks-per-node=1", "--cpus-per-task=2",
                          "--gpus-per-node=1", self.script("heterogeneous.sbatch"), DIGITS, *SMALL)
        records = self.ends(job)
        self.assertEqual([record["HetJobOffset"] for record in records], ["0", "1"])
        self.assertEqual(sorted(record["NodeList"] for record in records), ["node1", "node2"])
        log = self.read(f"halograd-heterogeneous-{job}.out")
        self.assertRegex(log, r"\n  ranks +3 on 2 nodes\n")  # one MPI world
        self.check_run("runs/digits", 3)

    def test_sweep(self):
        job = self.submit("--array=0-3", "--ntasks-per-node=4", "--cpus-per-task=1", self.script("sweep.sbatch"),
                          SYNTHETIC, *SMALL)
        self.assertEqual(len(self.ends(job)), 4)
        first = self.read(f"halograd-sweep-{job}_0.out")
        table_job = int(re.search(r"^Submitted batch job (\d+)$", first, re.MULTILINE).group(1))
        record, = self.ends(table_job)
        self.assertGreaterEqual(record["StartTime"], max(r["EndTime"] for r in self.cluster.job(job)))
        folder = f"runs/sweep-{job}"
        names = ["allreduce", "none", "ring", "torus2d"]
        with open(self.path(folder, "table.csv"), encoding="utf-8", newline="") as file:
            rows = {row["run"]: row for row in csv.DictReader(file)}
        self.assertEqual(sorted(rows), names)
        for name, row in rows.items():
            self.check_run(f"{folder}/{name}", 4)
            metrics = read_metrics(self.path(folder, name, "metrics.h5"))
            self.assertEqual((row["ranks"], row["epochs"]), ("4", "2"))
            self.assertAlmostEqual(float(row["mean_model_score"]), 100 * metrics["epoch/mean_model_accuracy"][-1])
            self.assertAlmostEqual(float(row["consensus_distance"]), metrics["epoch/consensus_distance"][-1])
            self.assertAlmostEqual(float(row["megabytes_sent"]), metrics["step/bytes_sent"].mean() / 1e6)
        accuracies = [float(row["mean_model_score"]) for row in rows.values()]
        self.assertEqual(accuracies, sorted(accuracies, reverse=True))
        table = self.read(folder, "table.txt")
        self.assertIn(table, self.read(f"halograd-sweep-table-{job}.out"))
        self.assertEqual(len(table.splitlines()), 5)
        with open(self.path(folder, "metrics.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        self.assertEqual(glob.glob(self.path(folder, "*.partial")), [])

    def test_a_launcher_of_mpi_instead_of_srun(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=2", self.script("cpu.sbatch"), DIGITS, *SMALL,
                          HALOGRAD_SITE=LAUNCHER_SITE)
        self.ends(job)
        self.assertRegex(self.read(f"halograd-cpu-{job}.out"), r"\n  ranks +4 on 2 nodes\n")
        self.check_run("runs/digits", 4)


class Refusals(ClusterTest):
    def fails(self, *words, says, **environment):
        job = self.submit("--ntasks-per-node=2", self.script("cpu.sbatch"), *words, **environment)
        self.ends(job, "FAILED", "1:0")
        self.assertIn(says, self.read(f"halograd-cpu-{job}.out"))
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_what_a_job_lacks(self):
        self.fails(says="no run file given")
        self.fails(DIGITS, says="there is no program /nowhere/halograd: build it", HALOGRAD_CPU_PROGRAM="/nowhere/halograd")
        self.fails(DIGITS, says="there is no site file /nowhere.sh", HALOGRAD_SITE="/nowhere.sh")

    def test_a_refused_run_file_is_not_queued_again(self):
        self.fails("nowhere.toml", says="nowhere.toml")
        self.fails(DIGITS, "--set", "training.epoch=2", says='did you mean "epochs"')


if __name__ == "__main__":
    main()
