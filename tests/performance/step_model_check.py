#!/usr/bin/env python3
"""Holds simulate's model of the step against real runs on 2, 4 and 8 ranks with injected latency.

    step_model_check.py [--program build/openmp/halograd] [--mpiexec mpiexec] [--ranks 2,4,8] [--latency-ms 0,5,20,50]
        [--compute-ms 20]

Ranks sleep until the computing of a step has taken --compute-ms (comm.inject.compute_us), so that they do not contend
for cores; what a step takes then without exchange is measured and given to the model. A halo that arrives L later is
to the model two messages (halo and counter) of L / 2 each; a ring all-reduce is 2 (P - 1) messages of L. Prints
medians over the steps of all ranks.
"""

import argparse
import csv
import os
import subprocess
import tempfile

import h5py
import numpy as np

RUN_FILE = """name = "run"
training.epochs = 2
training.batch = {batch}
training.threads = 1
data.format = "synthetic"
data.synthetic_train = {images}
data.synthetic_test = 64
data.synthetic_shape = [16, 16, 1]
network.name = "small"
[[network.layer]]
type = "conv"
channels = 16
kernel = 3
[[network.layer]]
type = "relu"
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 64
[[network.layer]]
type = "dense"
channels = 10
[output]
checkpoint_epochs = 0
"""
PARAMETERS = 16 * 10 + 14 * 14 * 16 * 64 + 64 + 64 * 10 + 10
STEPS = 15


def measured(arguments, folder, ranks, name, latency_ms):
    path = os.path.join(folder, "run.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(RUN_FILE.format(batch=64 * ranks, images=64 * ranks * STEPS))
    subprocess.run([arguments.mpiexec, "-n", str(ranks), arguments.program, "train", path, "--overwrite", "--set",
                    f"averager.name={name}", "--set", f"comm.inject.latency_us={1000 * latency_ms}", "--set",
                    f"comm.inject.compute_us={1000 * arguments.compute_ms}"],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=250,
                   env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMP_WAIT_POLICY": "passive"})
    with h5py.File(os.path.join(folder, "runs/run/metrics.h5")) as file:
        seconds = 64 / file["step/images_per_second"][()][STEPS:]  # the second epoch
    return 1e3 * float(np.median(seconds))


def predicted(arguments, folder, ranks, latency_ms, compute_ms):
    table = os.path.join(folder, "table.csv")
    subprocess.run([arguments.program, "simulate", "--ranks", str(ranks), "--topology", "ring", "--compute-ms",
                    str(compute_ms), "--latency-us", str(max(1e-3, 1000 * latency_ms)), "--bandwidth-gb", "5",
                    "--parameters", str(PARAMETERS), "--threads", "1", "--csv", table],
                   check=True, stdout=subprocess.DEVNULL, timeout=250)
    with open(table, encoding="utf-8") as file:
        return {row["averager"]: 1e3 * float(row["step_seconds"]) for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/openmp/halograd", type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--latency-ms", default="0,5,20,50")
    parser.add_argument("--compute-ms", type=float, default=20)
    arguments = parser.parse_args()
    print("step in ms: predicted / measured\n| ranks | none | latency | neighbour, ring | apart | ring all-reduce | apart |\n"
          "|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, arguments.ranks.split(",")):
            compute = measured(arguments, folder, ranks, "none", 0)
            for latency in map(float, arguments.latency_ms.split(",")):
                halo = predicted(arguments, folder, ranks, latency / 2, compute)["neighbour"]
                ring = predicted(arguments, folder, ranks, latency, compute)["ring_allreduce"]
                found = [measured(arguments, folder, ranks, name, latency) for name in ("neighbour", "allreduce")]
                print(f"| {ranks} | {compute:.1f} | {latency:g} | {halo:.1f} / {found[0]:.1f} | {100 * (found[0] / halo - 1):+.1f} % "
                      f"| {ring:.1f} / {found[1]:.1f} | {100 * (found[1] / ring - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
