#!/usr/bin/env python3
"""Seconds per step and memory per rank of a replica that a group of ranks shares (parallel.spatial; of two wide dense layers,
parallel.channels), beside one rank's.

    python3 tests/performance/space_speed.py --program build/openmp/halograd unet2d:512x512 cosmoflow:128x128x128 --blocks 1 2 4 8
    python3 tests/performance/space_speed.py --program build/openmp/halograd dense:4096 --batch 64 --blocks 1 2

Each rank has one thread, and a batch is one image unless --batch says more. The last row is what the cores give: seconds per
batch of as many ranks as there are cores, each with a replica of its own. Rounds alternate between the rows; printed are
medians of the steps of all rounds (but the first two of each), and the largest peaks of a rank's memory: what is resident, and
what is left of it where the ranks share the pages of libraries and windows, each counted once (the proportional set, looked at
ten times a second). Where there are more ranks than cores only the memory means anything. Run it alone.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

RUN_FILE = """
training = {{epochs = 1, batch = {batch}, threads = 1}}
data = {{format = "hdf5", path = "data.h5"}}
network = {network}
loss.name = "{loss}"
optimizer = {{name = "sgd", learning_rate = 1e-8, momentum = 0.9}}
output = {{print_steps = 0}}
"""


def write_data(path, network, extents, images):
    random = np.random.default_rng(1)
    per_pixel = network == "unet2d"
    with h5py.File(path, "w") as file:
        for split, count in (("train", images), ("test", 1)):
            file[f"{split}/images"] = random.standard_normal((count, *extents, 4 if network == "cosmoflow" else 1), np.float32)
            if per_pixel:
                file[f"{split}/labels"] = random.integers(0, 2, (count, *extents), np.uint8)
                file[f"{split}/labels"].attrs["classes"] = 2
            else:
                file[f"{split}/labels"] = random.uniform(-1, 1, (count, 4)).astype(np.float32)


def network_table(network, extents):
    if network != "dense":
        return f'{{name = "{network}"}}'
    wide = f'{{type = "dense", channels = {extents[0]}}}, {{type = "relu"}}'
    return f'{{name = "dense", layer = [{{type = "flatten"}}, {wide}, {wide}, {{type = "dense", channels = 4}}]}}'


def cut(ranks, axes):
    """Blocks along each axis: halves, the first axes first."""
    blocks = [1] * axes
    for i in range(ranks.bit_length() - 1):
        blocks[i % axes] *= 2
    return blocks


def megabytes(program):
    """The largest of a process of the program: resident at its peak so far, proportional now."""
    found = [(0.0, 0.0)]
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if not os.path.samefile(f"/proc/{process}/exe", program):
                continue
            with open(f"/proc/{process}/status", encoding="utf-8") as status, \
                    open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as maps:
                lines = dict(line.split(":", 1) for line in [*status, *maps] if ":" in line)
            found.append(tuple(int(lines[name].split()[0]) / 1000 for name in ("VmHWM", "Pss")))
        except (OSError, KeyError, ValueError):  # ended meanwhile, or another user's
            continue
    return np.max(found, axis=0)


def group_of(ranks, axes):
    """Keys of a replica that the ranks share."""
    if ranks == 1:
        return []
    return [f"parallel.channels={ranks}" if axes == 1 else f"parallel.spatial={cut(ranks, axes)}"]


def replicas_apart(ranks, batch):
    """Keys of ranks that train alone, together as many images as one rank."""
    return ["averager.name=none", f"training.batch={ranks * batch}", f"training.epochs={ranks}"]


def run(arguments, folder, ranks, keys):
    """(seconds of each batch but the first two, or of the last; peak megabytes: resident, proportional)."""
    command = [arguments.mpiexec, "-n", str(ranks), arguments.program, "train", "run.toml", "--overwrite"]
    command += [word for key in keys for word in ("--set", key)]
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        peak, end = np.zeros(2), time.monotonic() + arguments.limit
        while process.poll() is None:
            peak = np.maximum(peak, megabytes(arguments.program))
            if time.monotonic() > end:
                process.kill()
                sys.exit(f"{command}: still running after {arguments.limit} s")
            time.sleep(0.1)
    if process.returncode != 0:
        with open(os.path.join(folder, "log"), encoding="utf-8") as log:
            sys.exit(f"{command}\n{log.read()}")
    with h5py.File(os.path.join(folder, "runs/run/metrics.h5"), "r") as file:
        speeds = file["step/images_per_second"][:, 0]  # of one replica
        return list(arguments.batch / speeds[min(2, len(speeds) - 1):]), peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", help="unet2d, cosmoflow or dense, with the extents of an image: unet2d:512x512")
    parser.add_argument("--program", required=True, type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--blocks", nargs="+", type=int, default=[1, 2], help="ranks of a group, powers of two, 1 first")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one run")
    arguments = parser.parse_args()
    print("| network | ranks | blocks | s per step | one rank's over it | resident MB per rank | of one rank's "
          "| proportional MB | of one rank's |\n" + "|---" * 9 + "|")
    for word in arguments.networks:
        network, _, size = word.partition(":")
        extents = list(map(int, size.split("x")))
        with tempfile.TemporaryDirectory(prefix="halograd_space_") as folder:
            write_data(os.path.join(folder, "data.h5"), network, extents, arguments.steps * arguments.batch)
            with open(os.path.join(folder, "run.toml"), "w", encoding="utf-8") as file:
                loss = "binary_cross_entropy" if network == "unet2d" else "mean_squared_error"
                file.write(RUN_FILE.format(network=network_table(network, extents), loss=loss, batch=arguments.batch))
            axes, cores = len(extents), os.cpu_count()
            rows = [(ranks, "x".join(map(str, cut(ranks, axes))), group_of(ranks, axes), 1) for ranks in arguments.blocks]
            rows.append((cores, "replicas apart", replicas_apart(cores, arguments.batch), cores))
            seconds, peaks = [[] for _ in rows], np.zeros((len(rows), 2))
            for _ in range(arguments.rounds):
                for row, (ranks, _, keys, replicas) in enumerate(rows):
                    steps, peak = run(arguments, folder, ranks, keys)
                    seconds[row] += [step / replicas for step in steps]
                    peaks[row] = np.maximum(peaks[row], peak)
        medians = [statistics.median(steps) for steps in seconds]
        for (ranks, blocks, *_), median, peak in zip(rows, medians, peaks):
            memory = " | ".join(f"{own:.0f} | {share:.2f}" for own, share in zip(peak, peak / peaks[0]))
            print(f"| {word} | {ranks} | {blocks} | {median:.3f} | {medians[0] / median:.2f} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
