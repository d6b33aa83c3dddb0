"""Training runs on hosts of a network lab (tests/network/lab.py), for the scripts beside this file."""

import os
import sys

import h5py

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "network"))
from lab import CannotRun, Lab  # noqa: E402, F401: for the scripts as well

RUN_FILE = """name = "run"
training.epochs = 1
training.batch = {batch}
training.threads = 1
data.format = "synthetic"
data.synthetic_train = {images}
data.synthetic_test = 16
data.synthetic_shape = {shape}
output.checkpoint_epochs = 0
output.print_steps = 0
{network}
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMP_WAIT_POLICY": "passive"}


def sets(words):
    return [each for word in words for each in ("--set", word)]


def chosen(parser, asked, ways):
    """The names in --ways, which are separated by semicolons; of all `ways` where none is asked for."""
    names = [name.strip() for name in asked.split(";")] if asked else list(ways)
    for name in names:
        if name not in ways:
            parser.error(f"--ways: '{name}' is none of: {'; '.join(ways)}")
    return names


def write_run_file(folder, network, shape, batch, steps):
    """One epoch of so many steps on synthetic images; `batch`: images of all ranks in a step. The path."""
    path = os.path.join(folder, "run.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(RUN_FILE.format(network=network, shape=list(shape), batch=batch, images=batch * steps))
    return path


def train(lab, program, run_file, words, hosts=None, timeout=120, ranks_per_host=1):
    """Trains with these keys on the first `hosts` hosts, or on all. The standard output; raises RuntimeError where it fails."""
    result = lab.run([program, "train", run_file, "--overwrite", *sets(words)], ranks_per_host, os.path.dirname(run_file),
                     ENVIRONMENT, timeout, hosts)
    if result.status != 0:
        raise RuntimeError(f"{' '.join(words)}: status {result.status} after {result.seconds:.0f} s of {timeout}\n{result.err}")
    return result.out


def step_seconds(run_file, images, warm_up):
    """For each rank of a run the seconds of its own steps without the first ones, of so many images each. At a free pace a
    column of the metrics is not a rank's."""
    with h5py.File(os.path.join(os.path.dirname(run_file), "runs", "run", "metrics.h5"), "r") as file:
        rank, rate = (file["step"][name][()] for name in ("rank", "images_per_second"))
    return [images / rate[rank == each][warm_up:] for each in range(rank.shape[1])]
