#!/usr/bin/env python3
"""The jobscripts that cmake --install leaves, submitted from a folder elsewhere, with nothing set for them."""

import os
import re
import shutil
import tempfile

import h5py

from cluster import PROGRAM, ClusterTest, execute, main

SMALL = ["--set", "training.epochs=2", "--set", "training.threads=1"]


class Installed(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prefix = tempfile.mkdtemp(prefix="halograd_prefix_")
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        result = execute(["cmake", "--install", os.path.dirname(PROGRAM), "--prefix", cls.prefix], cls.prefix)
        if result.status != 0:
            raise RuntimeError(result.out + result.err)
        cls.home = os.path.join(cls.prefix, "share", "halograd")

    def setUp(self):
        super().setUp()
        for name in list(self.environment):
            if name.startswith("HALOGRAD_") and name != "HALOGRAD_PYTHON":
                del self.environment[name]
        self.digits = os.path.join(self.home, "inputs", "digits.toml")

    def script(self, name):
        return os.path.join(self.home, "jobscripts", name)

    def check_checkpoint(self, folder, ranks):
        with h5py.File(self.path(folder, "checkpoint.h5"), "r") as file:
            self.assertEqual((int(file.attrs["ranks"]), int(file.attrs["epoch"])), (ranks, 2))

    def test_nothing_of_the_checkout_is_named(self):
        names = sorted(os.listdir(os.path.join(self.home, "jobscripts")))
        for name in ("cpu.sbatch", "cuda.sbatch", "hip.sbatch", "heterogeneous.sbatch", "sweep.sbatch", "site"):
            self.assertIn(name, names)
        self.assertNotIn("quickstart.sh", names)
        source = os.environ["HALOGRAD_SOURCE_DIR"]
        for parent, _, files in os.walk(self.home):
            for name in (name for name in files if name.endswith((".sbatch", ".sh"))):
                with open(os.path.join(parent, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotIn(source, text, name)
                self.assertNotIn("SLURM_SUBMIT_DIR", text, name)
                self.assertNotIn("/build/", text, name)

    def test_cpu(self):
        job = self.submit("--nodes=2", "--ntasks-per-node=1", self.script("cpu.sbatch"), self.digits, *SMALL)
        self.ends(job)
        self.assertIn(f"job {job} on node[1-2], start 1: 2 ranks, ", self.read(f"halograd-cpu-{job}.out"))
        self.check_checkpoint("runs/digits", 2)

    def test_sweep_with_its_table(self):
        job = self.submit("--array=0-1", "--ntasks-per-node=2", "--cpus-per-task=1", self.script("sweep.sbatch"),
                          self.digits, *SMALL)
        self.assertEqual(len(self.ends(job)), 2)
        first = self.read(f"halograd-sweep-{job}_0.out")
        self.ends(int(re.search(r"^Submitted batch job (\d+)$", first, re.MULTILINE).group(1)))
        for name in ("none", "allreduce"):
            self.check_checkpoint(f"runs/sweep-{job}/{name}", 2)
        self.assertEqual(len(self.read(f"runs/sweep-{job}", "table.txt").splitlines()), 3)
        self.assertTrue(os.path.exists(self.path(f"runs/sweep-{job}", "metrics.png")))


if __name__ == "__main__":
    main()
