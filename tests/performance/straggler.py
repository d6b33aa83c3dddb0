#!/usr/bin/env python3
"""What one slow rank costs the others: images/s with a rank slowed down, against the same run without.

    straggler.py [--program build/openmp/halograd] [--mpiexec mpiexec] [--ranks 4] [--factor 2]

Prints for each way of averaging the throughput of all ranks and of those that are not slowed (over the last
epochs), with and without the straggler, which sleeps after computing: where ranks share cores, the others gain
what it leaves idle.
"""

import argparse
import os
import subprocess
import tempfile

import h5py
import numpy as np

RUN_FILE = """name = "run"
training.epochs = {epochs}
training.batch = {batch}
training.threads = 1
data.format = "synthetic"
data.synthetic_train = {images}
data.synthetic_test = 64
data.synthetic_shape = [32, 32, 3]
network.name = "resnet20"
output.checkpoint_epochs = 0
"""
BATCH, STEPS, EPOCHS = 32, 16, 4  # of a rank; a step is far longer than a time slice of cores that ranks share
WAYS = {
    "allreduce": ["averager.name=allreduce"],
    "neighbour, synchronous": ["averager.name=neighbour"],
    "neighbour, any staleness": ["averager.staleness=-1", "comm.slots=3"],
    "allreduce, measured shares": ["averager.name=allreduce", "training.shares=measured"],
    "neighbour, measured shares": ["averager.name=neighbour", "training.shares=measured"],
}


def rates(arguments, folder, words, factor):
    ranks = arguments.ranks
    path = os.path.join(folder, "run.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(RUN_FILE.format(epochs=EPOCHS, batch=BATCH * ranks, images=BATCH * ranks * STEPS))
    if factor > 1:
        words = words + ["comm.inject.slow_rank=0", f"comm.inject.slow_factor={factor}"]
    subprocess.run([arguments.mpiexec, "-n", str(ranks), arguments.program, "train", path, "--overwrite",
                    *(word for each in words for word in ("--set", each))],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=250)
    with h5py.File(os.path.join(folder, "runs/run/metrics.h5")) as file:
        seconds_an_image = 1 / file["step/images_per_second"][()][2 * STEPS:]
        return 1 / seconds_an_image.mean(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/openmp/halograd", type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--factor", type=float, default=2)
    arguments = parser.parse_args()
    print(f"| {arguments.ranks} ranks, one {arguments.factor:g} times slower | all, images/s | loss | others, images/s | loss |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, words in WAYS.items():
            even = rates(arguments, folder, words, 1)
            slow = rates(arguments, folder, words, arguments.factor)
            cells = [f"{before:.0f} to {after:.0f} | {100 * (1 - after / before):.0f} %"
                     for before, after in ((even.sum(), slow.sum()), (even[1:].sum(), slow[1:].sum()))]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
