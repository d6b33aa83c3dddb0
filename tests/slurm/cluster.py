"""A Slurm of its own for the tests beside this file (single_node.sh), and what they ask of it."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ["HALOGRAD_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "app"))
from program import DIGITS, PROGRAM, SYNTHETIC, execute, main, read_metrics  # noqa: E402, F401: for the tests as well

SCRIPT = os.path.join(SOURCE, "tests", "slurm", "single_node.sh")
JOBSCRIPTS = os.path.join(SOURCE, "jobscripts")
# Which MPI the program is linked with: Open MPI's tests say how srun tells it about its ranks.
MPI = os.environ.get("SLURM_MPI_TYPE", "pmi2")
LAUNCHER_SITE = os.path.join(JOBSCRIPTS, "site", "mpiexec.sh" if MPI == "pmi2" else "mpiexec_openmpi.sh")
TWO_GPUS = ("gres:gpu:2", "gres/gpu:2")  # as older and newer releases of Slurm write it
CANNOT_RUN = 77
TIMEOUT = 300  # seconds for one job
FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL"}


class Cluster:
    """Nodes of 8 cores and 2 GPUs that are not there, from start to stop."""

    LOG = "log/slurmctld.log"

    def __init__(self, nodes=2):
        self.folder = tempfile.mkdtemp(prefix="halograd_slurm_")
        atexit.register(self.stop)
        started = subprocess.run(["bash", SCRIPT, "start", self.folder], stdin=subprocess.DEVNULL, encoding="utf-8",
                                 env={**os.environ, "HALOGRAD_SLURM_NODES": str(nodes)},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150, check=False)
        if started.returncode == CANNOT_RUN:
            print(f"\n*** SLURM IS NOT TESTED HERE: {started.stdout.strip()} ***\n", flush=True)
            sys.exit(CANNOT_RUN)  # ctest then lists the test as skipped
        if started.returncode != 0:
            raise RuntimeError(started.stdout)
        self.environment = {"SLURM_CONF": os.path.join(self.folder, "slurm.conf")}

    def stop(self):
        atexit.unregister(self.stop)
        subprocess.run(["bash", SCRIPT, "stop", self.folder], stdin=subprocess.DEVNULL, timeout=150, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, words, folder, **environment):
        return execute([*map(str, words)], folder, {**self.environment, **environment})

    def command(self, *words, attempts=1, **environment):
        for left in reversed(range(attempts)):
            result = self.execute(words, self.folder, **environment)
            if result.status == 0:
                return result.out
            if left > 0:
                time.sleep(0.5)
        raise AssertionError(f"{words}: status {result.status}\n{result.out}\n{result.err}")

    def job(self, number):
        """What scontrol knows of a job, of all jobs of an array, or of all components of a heterogeneous one."""
        text = self.command("scontrol", "show", "job", "-o", number, attempts=20)  # a busy controller may hang up
        return [dict(re.findall(r"([\w/:]+)=(\S*)", line)) for line in text.splitlines()]

    def wait(self, number, until=None, timeout=TIMEOUT):
        """Waits until a job and its array have ended, or for another condition on its records; the records."""
        end = time.monotonic() + timeout
        while True:
            records = self.job(number)
            if until is not None and until(records):
                return records
            if all(record["JobState"] in FINAL for record in records):
                if until is None:
                    return records
                raise AssertionError(f"ended too early: {records}")
            if time.monotonic() > end:
                raise AssertionError(f"after {timeout} s: {records}\n{self.log()}")
            # Only a change makes the backfill scheduler, which heterogeneous jobs need, look again: an idle cluster has none.
            self.execute(["scontrol", "update", f"JobId={number}", f"Comment={time.monotonic()}"], self.folder)
            time.sleep(0.3)

    def log(self):
        with open(os.path.join(self.folder, self.LOG), encoding="utf-8") as file:
            return file.read()[-4000:]


class ClusterTest(unittest.TestCase):
    """Tests that share one cluster; each has a folder to submit from."""

    NODES = 2

    @classmethod
    def start_cluster(cls):
        return Cluster(cls.NODES)

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.start_cluster()
        cls.addClassCleanup(cls.cluster.stop)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="halograd_jobs_")
        self.addCleanup(shutil.rmtree, self.folder)
        # no user's own settings: what a job is told comes from the test alone
        self.environment = {
            "HALOGRAD_HOME": SOURCE, "HALOGRAD_CPU_PROGRAM": PROGRAM, "HALOGRAD_CUDA_PROGRAM": PROGRAM,
            "HALOGRAD_HIP_PROGRAM": PROGRAM, "HALOGRAD_PYTHON": sys.executable, "HALOGRAD_SITE": "",
            "MPLCONFIGDIR": os.path.join(self.folder, "matplotlib"), "OMP_WAIT_POLICY": "passive"}

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def submit(self, *words, **environment):
        """Submits from the test's folder; the job's number."""
        result = self.cluster.execute(["sbatch", "--parsable", *words], self.folder, **{**self.environment, **environment})
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        return int(result.out.strip())

    def script(self, name):
        return os.path.join(JOBSCRIPTS, name)

    def ends(self, job, state="COMPLETED", status="0:0"):
        """The job's records once it has ended, which must be so; its log is shown where it is not."""
        records = self.cluster.wait(job)
        for record in records:
            self.assertEqual((record["JobState"], record["ExitCode"]), (state, status), self.outputs())
        return records

    def programs_of(self, job):
        """Processes of the program that belong to a job: {rank: (process, node)}."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if not os.path.samefile(f"/proc/{name}/exe", PROGRAM):
                    continue
                with open(f"/proc/{name}/environ", encoding="utf-8") as file:
                    environment = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
            except OSError:  # it has ended meanwhile
                continue
            wanted = {"SLURM_JOB_ID": str(job), **self.cluster.environment}  # other clusters have jobs of that number
            if all(environment.get(key) == value for key, value in wanted.items()):
                found[int(environment["SLURM_PROCID"])] = int(name), environment["SLURMD_NODENAME"]
        return found

    def outputs(self):
        return "\n".join(f"--- {name}\n{self.read(name)}" for name in sorted(os.listdir(self.folder))
                         if name.endswith(".out"))
