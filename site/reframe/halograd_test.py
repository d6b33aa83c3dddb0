"""Checks of an installed halograd by ReFrame: does it train to the accuracy that it should, does it end, and do ranks
cost each other no more than they may? References are ratios, so that they hold on any machine.

    reframe -C site/reframe/settings.py -c site/reframe/halograd_test.py --system=site:slurm -r
    reframe ... -S program=$HOME/halograd/bin/halograd -S ranks=8 -S cpus_per_rank=16

The partition's launcher has to start MPI ranks. With ReFrame's own (generic) configuration only Digits runs, on one
rank.
"""

import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, run_before, sanity_function, variable

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs")


class Training(rfm.RunOnlyRegressionTest):
    """One training, whose result is the JSON object that halograd train --json prints."""

    program = variable(str, value="halograd")  # a path, or found in the PATH of the job
    inputs = variable(str, value=os.path.normpath(INPUTS))  # or PREFIX/share/halograd/inputs
    ranks = variable(int, value=2)
    ranks_per_node = variable(int, value=0)  # 0: all on one node
    cpus_per_rank = variable(int, value=1)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "10m"

    @run_after("init")
    def name_program(self):
        self.executable = self.program

    @run_after("setup")
    def set_ranks(self):
        self.num_tasks = 1 if self.current_partition.launcher_type.registered_name == "local" else self.ranks
        if self.ranks_per_node > 0:
            self.num_tasks_per_node = self.ranks_per_node
        else:
            self.num_tasks_per_node = self.num_tasks
        self.num_cpus_per_task = self.cpus_per_rank
        self.env_vars["OMP_NUM_THREADS"] = self.cpus_per_rank

    def number(self, key, output=None):
        """A number of the result."""
        return sn.extractsingle(rf'"{key}":([-+0-9.eE]+)', output or self.stdout, 1, float)

    def has_ended(self, output=None):
        """All ranks ended well, and nothing but the last epoch ended the training."""
        return sn.all([
            sn.assert_eq(self.job.exitcode or 0, 0),
            sn.assert_found(r'^\{.*"stopped":""', output or self.stdout, "the training did not come to its end"),
        ])


@rfm.simple_test
class Digits(Training):
    """Real digits: the mean of the replicas recognises them."""

    descr = "halograd trains inputs/digits.toml to its accuracy"
    least_accuracy = variable(float, value=0.97)

    @run_before("run")
    def name_run_file(self):
        self.executable_opts = ["train", os.path.join(self.inputs, "digits.toml"), "--json"]

    @sanity_function
    def learns_and_ends(self):
        return sn.all([
            self.has_ended(),
            sn.assert_eq(self.number("epochs"), 20),
            sn.assert_ge(self.number("mean_model_accuracy"), self.least_accuracy),
        ])


@rfm.simple_test
class WeakScaling(Training):
    """In one job, the same work per rank on one rank and then on all: a step on all takes little longer."""

    descr = "halograd's steps on all ranks beside those on one"
    images = variable(int, value=32)  # per rank and step
    steps = variable(int, value=40)
    # Efficiency: images/s of all ranks over those of one rank and the number of ranks.
    reference = {"*": {"efficiency": (0.9, -0.25, None, "1"), "wait_share": (0.15, None, 1.0, "1")}}

    @run_after("setup")
    def need_ranks(self):
        self.skip_if(self.num_tasks < 2, "needs a partition whose launcher starts several ranks")

    def words(self, ranks):
        """Two epochs; the second is the same length, and the first pays for what happens once."""
        keys = {
            "name": f"ranks{ranks}",
            "training.epochs": 2,
            "training.batch": self.images * ranks,
            "data.synthetic_train": self.images * ranks * self.steps,
            "data.synthetic_shape": "[32,32,3]",
            "data.synthetic_classes": 10,
            "network.name": "resnet20",
            "network.layer": "[]",
            "output.checkpoint_epochs": 0,
        }
        words = ["train", os.path.join(self.inputs, "synthetic.toml"), "--json"]
        return words + [word for key, value in keys.items() for word in ("--set", f"'{key}={value}'")]

    @run_before("run")
    def one_rank_first(self):
        self.executable_opts = self.words(self.num_tasks)
        job, launcher = self.job, self.job.launcher
        everyone, job.num_tasks = job.num_tasks, 1
        command = launcher.run_command(job)
        job.num_tasks = everyone
        if launcher.registered_name.startswith("srun"):  # takes the number from the job
            command += " --nodes=1 --ntasks=1"
        self.prerun_cmds = [f"{command} {self.executable} {' '.join(self.words(1))} >one_rank.json"]

    @sanity_function
    def both_end(self):
        return sn.all([self.has_ended(), self.has_ended("one_rank.json")])

    @performance_function("1")
    def efficiency(self):
        return self.number("images_per_second") / self.number("images_per_second", "one_rank.json") / self.num_tasks

    @performance_function("1")
    def wait_share(self):
        """Share of the time of training in which ranks wait for each other."""
        return self.number("wait_share")
