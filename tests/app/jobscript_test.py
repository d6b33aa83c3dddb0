#!/usr/bin/env python3
"""halograd jobscript: what it chooses, what it writes, what it refuses. tests/slurm submits what it writes."""

import os
import re
import shutil

from program import DIGITS, PROGRAM, ProgramTest, execute, main

CLUSTER = ["--nodes", 2, "--cores-per-node", 32, "--config", DIGITS]


class Jobscript(ProgramTest):
    def script(self, *words):
        out = self.succeed("jobscript", *words)
        path = self.write("job.sbatch", out)
        self.assertEqual(execute(["bash", "-n", path], self.folder), (0, "", ""))
        if shutil.which("shellcheck"):
            result = execute(["shellcheck", path], self.folder)
            self.assertEqual(result.status, 0, result.out)
        else:
            print("no shellcheck here")
        options = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", out, re.MULTILINE)
        self.assertEqual(len(dict(options)), len(options), "an option twice")
        return out, dict(options)

    def test_every_line_is_explained(self):
        out, _ = self.script(*CLUSTER, "--account", "me", "--partition", "a,b", "--gpus-per-node", 4)
        lines = out.splitlines()
        for above, line in zip(lines, lines[1:]):
            if line.startswith("#SBATCH"):
                self.assertRegex(above, r"^# \S.*\.$")
        self.assertIn(f"# Written by: {PROGRAM} jobscript --nodes 2 --cores-per-node 32 --config {DIGITS} --account me", out)

    def test_the_layout_on_cores(self):
        # a whole replica gets at most 8 cores; there are 4 ranks or more; at most 1/16 of the cores is idle
        for nodes, cores, ranks, threads in ((2, 32, 4, 8), (1, 32, 4, 8), (1, 8, 4, 2), (4, 6, 1, 6), (2, 7, 7, 1),
                                             (1, 127, 15, 8), (1, 36, 6, 6), (1, 2, 2, 1), (1, 1, 1, 1), (2, 128, 16, 8)):
            _, options = self.script("--nodes", nodes, "--cores-per-node", cores, "--config", DIGITS)
            self.assertEqual((options["nodes"], options["ntasks-per-node"], options["cpus-per-task"]),
                             (str(nodes), str(ranks), str(threads)), (nodes, cores))
            self.assertNotIn("gpus-per-node", options)
        out, options = self.script(*CLUSTER, "--ranks-per-node", 3)
        self.assertEqual((options["ntasks-per-node"], options["cpus-per-task"]), ("3", "10"))
        self.assertIn("export OMP_NUM_THREADS=10\n", out)

    def test_a_rank_a_gpu(self):
        _, options = self.script(*CLUSTER, "--gpus-per-node", 4)
        self.assertEqual((options["gpus-per-node"], options["ntasks-per-node"], options["cpus-per-task"]), ("4", "4", "8"))

    def test_groups_of_ranks_count_as_one(self):
        """training.batch and topologies are of replicas."""
        with open(DIGITS, encoding="utf-8") as file:
            run = self.write("run.toml", file.read() + "\n[parallel]\nspatial = [2, 2]\n")
        words = ["--nodes", 2, "--cores-per-node", 32, "--config", run]
        self.script(*words, "--ranks-per-node", 32)
        self.refuse("jobscript", *words, "--ranks-per-node", 3, words=["groups of 4 ranks", "this job has 6", "multiple of 4"], ranks=1)
        with open(run, "r+", encoding="utf-8") as file:
            text = re.sub(r"(?m)^batch = \d+", "batch = 15", file.read())
            file.seek(0)
            file.write(text)
            file.truncate()
        self.refuse("jobscript", *words, "--ranks-per-node", 32, words=["15 images", "16 groups of ranks"], ranks=1)

    def test_times_and_names(self):
        for time, warning in (("01:00:00", "120"), ("4", "60"), ("2:00", "30"), ("1-0", "120"), ("1-12:30:00", "120")):
            _, options = self.script(*CLUSTER, "--time", time)
            self.assertEqual((options["time"], options["signal"]), (time, f"USR1@{warning}"))
        _, options = self.script(*CLUSTER)
        self.assertEqual((options["job-name"], options["time"]), ("digits", "01:00:00"))
        self.assertNotIn("account", options)
        os.mkdir(self.path("it's a folder"))
        shutil.copy(DIGITS, self.path("it's a folder", "run 1.toml"))
        self.write("modules.sh", "true\n")
        out, options = self.script(*CLUSTER[:4], "--config", "it's a folder/run 1.toml", "--environment", "modules.sh",
                                   "--name", "mine", "--mpi", "pmix", "--program", "/opt/my halograd")
        self.assertEqual(options["job-name"], "mine")
        self.assertIn(f"\n. {self.path('modules.sh')}\n", out)
        self.assertIn("srun --mpi=pmix ", out)
        words = execute(["bash", "-c", re.search(r"\n  ('/opt.*) --resume", out).group(1).replace("'/opt", "printf '%s\\n' '/opt", 1)],
                        self.folder).out.splitlines()
        self.assertEqual(words, ["/opt/my halograd", "train", self.path("it's a folder", "run 1.toml")])

    def test_a_file_is_written_once(self):
        out = self.succeed("jobscript", *CLUSTER, "--output", "new.sbatch")
        self.assertEqual(out, "Wrote new.sbatch; submit it with: sbatch new.sbatch\n")
        self.assertEqual(execute(["bash", "-n", "new.sbatch"], self.folder).status, 0)
        self.refuse("jobscript", *CLUSTER, "--output", "new.sbatch", words=["new.sbatch: exists already"], ranks=0)
        self.refuse("jobscript", *CLUSTER, "--output", "no/folder.sbatch", words=["no/folder.sbatch: cannot be written"],
                    ranks=0)
        os.symlink("nowhere", self.path("link.sbatch"))
        result = self.run_program("jobscript", *CLUSTER, "--output", "link.sbatch")
        self.check_refused(result, "link.sbatch: exists already")
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_refusals(self):
        for words, said in ((["--time", "soon"], "--time is 'soon'"), (["--time", "1:2:3:4"], "--time"),
                            (["--time", "0:30"], "at least a minute"), (["--time", "5-"], "--time"),
                            (["--partition", "a; rm"], "--partition is 'a; rm'"), (["--account", "a b"], "--account"),
                            (["--gpus-per-node", 40], "40 ranks on a node of 32 cores"),
                            (["--ranks-per-node", 33], "33 ranks on a node of 32 cores"),
                            (["--ranks-per-node", 32, "--nodes", 9], "fewer than the 288 ranks"),
                            (["--environment", "nowhere.sh"], "there is no file nowhere.sh")):
            base = CLUSTER[2:] if "--nodes" in words else CLUSTER
            self.refuse("jobscript", *base, *words, words=[said], ranks=0)
        self.refuse("jobscript", *CLUSTER[:4], "--config", "nowhere.toml", words=["nowhere.toml"], ranks=0)
        for words in (["--nodes", 0], ["--nodes", "many"], ["--cores-per-node", -1]):
            self.assertNotEqual(self.run_program("jobscript", *words, "--config", DIGITS).status, 0)


if __name__ == "__main__":
    main()
