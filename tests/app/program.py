"""Runs the program for the tests beside this file: on a number of ranks, in a folder of its own, bounded in time."""

import atexit
import collections
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

SOURCE = os.environ["HALOGRAD_SOURCE_DIR"]
PROGRAM = os.environ["HALOGRAD_PROGRAM"]
MPIEXEC = [os.environ["HALOGRAD_MPIEXEC"], *os.environ.get("HALOGRAD_MPIEXEC_FLAGS", "").split()]
INPUTS = os.path.join(SOURCE, "inputs")
DIGITS = os.path.join(INPUTS, "digits.toml")
SYNTHETIC = os.path.join(INPUTS, "synthetic.toml")
FILES = ["best.h5", "checkpoint.h5", "checkpoints", "config.toml", "lock", "metrics.h5"]  # of a run folder
# Whether kernels run on devices: the tests start more ranks than there may be.
VERSION = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
ON_DEVICES = re.search(r"Kokkos [0-9.]+ \((Cuda|HIP)", VERSION) is not None
# Whether cores compute in bf16: AMX, or AVX512_BF16 of AMD.
with open("/proc/cpuinfo", encoding="utf-8") as cpus:
    CORES_HAVE_BF16 = not ON_DEVICES and re.search(r"\bamx_bf16\b|\bAuthenticAMD\b(?s:.)*\bavx512_bf16\b",
                                                   cpus.read()) is not None
TIMEOUT = 120  # seconds for one run; one that hangs is a failure
FLOAT = r"[-+0-9.e]+"
# Metrics that do not depend on how fast a run was.
SAME_ROWS = ["step/loss", "step/learning_rate", "step/bytes_sent", "epoch/train_loss", "epoch/test_loss",
             "epoch/test_accuracy", "epoch/mean_model_loss", "epoch/mean_model_accuracy", "epoch/consensus_distance",
             "epoch/steps"]

Result = collections.namedtuple("Result", "status out err")


@functools.cache
def drawing():
    """The environment of scripts that draw. matplotlib has listed the fonts in it: on a busy machine it comments on doing so."""
    folder = tempfile.TemporaryDirectory(prefix="halograd_matplotlib_")
    atexit.register(folder.cleanup)
    environment = {"MPLCONFIGDIR": folder.name}
    subprocess.run([sys.executable, "-c", "import matplotlib.pyplot"], env=os.environ | environment, capture_output=True, check=True)
    return environment


def launched(arguments, ranks):
    """The command line of the program on `ranks` ranks; ranks = 0: without a launcher."""
    words = [PROGRAM, *map(str, arguments)]
    if ON_DEVICES and words[1:2] == ["train"]:
        words += sets(training__ranks_per_device=8)
    return words if ranks == 0 else [*MPIEXEC, "-n", str(ranks), *words]


def execute(command, folder, environment=None):
    """Runs a command in a folder; it and all that it started are ended when the time is up."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env={**os.environ, **(environment or {})}, encoding="utf-8")
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{command}: still running after {TIMEOUT} s\n{out}\n{err}") from None
    return Result(process.returncode, out, err)


def launcher_says(words):
    """Whether `mpiexec --version` says one of these: HYDRA is MPICH's."""
    version = subprocess.run([MPIEXEC[0], "--version"], capture_output=True, text=True, check=False)
    return any(word in version.stdout for word in words)


IS_MPICH = launcher_says(["HYDRA"])
IS_OPEN_MPI = launcher_says(["Open MPI", "OpenRTE", "PRRTE"])


def sets(**values):
    """--set words: sets(training__epochs=2) gives ["--set", "training.epochs=2"]."""
    words = []
    for key, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--set", f"{key.replace('__', '.')}={text}"]
    return words


# For a training that goes on beside its test: its steps are mostly asleep, which leaves the cores to others.
ASLEEP = sets(comm__inject__compute_us=20000)


def contents(folder):
    """Every file below a folder with its bytes, every link with where it leads."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = os.readlink(path)
                continue
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def read_metrics(path):
    with h5py.File(path, "r") as file:
        return {f"{group}/{name}": file[group][name][()] for group in ("step", "epoch") for name in file[group]}


def read_replicas(path):
    """Values and checksums of each dataset below /replica."""
    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = (item[()], tuple(item.attrs["crc32"]))

    with h5py.File(path, "r") as file:
        file["replica"].visititems(add)
    return found


def ranks_below(launcher):
    """Processes of the program that a launcher has started, however deep below it."""
    parents, programs = {}, []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            if os.path.samefile(f"/proc/{name}/exe", PROGRAM):
                programs.append(int(name))
        except OSError:  # it has ended meanwhile, or belongs to another user
            continue

    def lies_below(process):
        while process not in (0, launcher):
            process = parents.get(process, 0)
        return process == launcher

    return [process for process in programs if lies_below(process)]


def kill_ranks(launcher):
    """Ends them at once; a launcher that has seen one of them end may be faster with the others."""
    for rank in ranks_below(launcher):
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGKILL)


class ProgramTest(unittest.TestCase):
    """A test with a temporary folder that the program is run in."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="halograd_app_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run_program(self, *arguments, ranks=0, environment=None):
        return execute(launched(arguments, ranks), self.folder, environment)

    def succeed(self, *arguments, ranks=0, environment=None):
        """Runs the program, which must end well and without a word on stderr; its standard output."""
        result = self.run_program(*arguments, ranks=ranks, environment=environment)
        self.assertEqual((result.status, result.err), (0, ""), f"{arguments} on {ranks} ranks\n{result.out}")
        return result.out

    def succeed_json(self, *arguments, ranks=0):
        """The same with --json: one object, and nothing else on standard output."""
        out = self.succeed(*arguments, "--json", ranks=ranks)
        self.assertEqual(out.count("\n"), 1, out)
        value = json.loads(out, parse_constant=self.fail)  # NaN and infinities are no JSON
        self.assertIsInstance(value, dict)
        return value

    def check_refused(self, result, *words):
        """It failed, said why in these words, once for all ranks, and did not crash."""
        shown = f"status {result.status}\n{result.out}\n{result.err}"
        self.assertGreater(result.status, 0, shown)
        self.assertLess(result.status, 128, shown)  # no signal
        for word in words:
            self.assertIn(word, result.err, shown)
        self.assertEqual(len(re.findall(r"^halograd: ", result.err, re.MULTILINE)), 1, shown)
        for noise in ("terminate called", "Assertion", "HDF5-DIAG", "Abort(", "BAD TERMINATION"):
            self.assertNotIn(noise, result.err + result.out, shown)

    def refuse(self, *arguments, words, ranks=2, environment=None):
        """Runs the program, which must fail as check_refused has it, leaving every file as it was."""
        before = contents(self.folder)
        result = self.run_program(*arguments, ranks=ranks, environment=environment)
        self.check_refused(result, *words)
        after = contents(self.folder)
        self.assertEqual(sorted(after), sorted(before))
        self.assertTrue(after == before, "a file was changed")
        return result

    def assert_same_bits(self, first, second, label):
        self.assertEqual(first.dtype, second.dtype, label)
        self.assertEqual(first.shape, second.shape, label)
        same = first.tobytes() == second.tobytes()
        if not same:
            self.fail(f"{label}: largest difference {np.max(np.abs(first - second))}")

    def assert_same_runs(self, label, metric="accuracy"):
        """runs/gold and runs/silver have ended with the same replicas, to the bit, and the same rows of metrics."""
        same = [name.replace("accuracy", metric) for name in SAME_ROWS]
        gold, silver = (read_replicas(self.path("runs", name, "checkpoint.h5")) for name in ("gold", "silver"))
        self.assertEqual(sorted(gold), sorted(silver), label)
        for name, (values, checksum) in gold.items():
            self.assert_same_bits(values, silver[name][0], f"{name}, {label}")
            self.assertEqual(checksum, silver[name][1], f"{name}, {label}")
        gold, silver = (read_metrics(self.path("runs", name, "metrics.h5")) for name in ("gold", "silver"))
        self.assertLessEqual(set(same), set(gold), label)
        for name, column in gold.items():
            self.assertEqual(column.shape, silver[name].shape, f"{name}, {label}")
            if name in same:
                self.assert_same_bits(column, silver[name], f"{name}, {label}")


class PreparedTest(ProgramTest):
    """Its tests begin with copies of what `prepare` leaves in the folder of the first."""

    def setUp(self):
        super().setUp()
        cls = type(self)
        if "prepared" not in vars(cls):
            self.prepare()
            cls.prepared = tempfile.mkdtemp(prefix="halograd_app_")
            self.addClassCleanup(shutil.rmtree, cls.prepared)
            shutil.copytree(self.folder, cls.prepared, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copytree(cls.prepared, self.folder, symlinks=True, dirs_exist_ok=True)


def main():
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
