#!/usr/bin/env python3
"""What averaging costs a training step, and how much of the exchange hides behind the gradient.

Trains the same network on random images with no averaging, all-reduce, neighbour averaging combine-then-adapt (the
exchange runs beside the gradient) and adapt-then-combine (nothing hides it). They take turns for --rounds rounds, and
each part of a step takes the median over the rounds of the median over the steps, mean over the ranks. With nothing
else running, and a core a thread:

    averaging_cost.py --program build/openmp/halograd [--ranks 2] [--network resnet18] [--batch 64] [--put]
        [--latency-ms 20] [--compute-ms 400]

hidden: 1 - (combine-then-adapt - none) / (adapt-then-combine - none), of waiting and update together: what averaging
adds to a step, without the noise of the computing. --latency-ms: every halo takes so much longer.
--compute-ms: with a batch that is computed faster, ranks sleep until so much is over, as where a device computes, so
that cores are free meanwhile.
"""

import argparse
import os
import statistics
import subprocess
import tempfile

import h5py

KINDS = {"none": ("none", "combine_then_adapt"), "allreduce": ("allreduce", "combine_then_adapt"),
         "combine_then_adapt": ("neighbour", "combine_then_adapt"),
         "adapt_then_combine": ("neighbour", "adapt_then_combine")}

RUN_FILE = """
name = "cost"
[training]
epochs = 1
batch = {batch}
[data]
format = "synthetic"
synthetic_train = {images}
synthetic_test = {ranks}
synthetic_shape = {shape}
synthetic_classes = 10
[network]
name = "{network}"
[optimizer]
name = "sgd"
learning_rate = 0.001
momentum = 0.9
[averager]
name = "{name}"
order = "{order}"
[topology]
kind = "{topology}"
[comm]
force_put = {put}
inject.latency_us = {latency}
inject.compute_us = {compute}
[output]
folder = "{folder}"
checkpoint_epochs = 0
"""


PARTS = ("wait", "compute", "update")


def parts_of_a_step(arguments, kind):
    """Milliseconds of each part: median over the steps but the first two of the mean over the ranks."""
    name, order = KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run.toml")
        with open(run, "w") as file:
            file.write(RUN_FILE.format(
                batch=arguments.batch, images=arguments.batch * arguments.steps, ranks=arguments.ranks, name=name,
                order=order, topology=arguments.topology, latency=1000 * arguments.latency_ms,
                compute=1000 * arguments.compute_ms, put=str(arguments.put).lower(), network=arguments.network,
                shape="[28, 28, 1]" if arguments.network == "lenet5" else "[32, 32, 3]", folder=folder + "/out"))
        subprocess.run([arguments.mpiexec, "-n", str(arguments.ranks), arguments.program, "train", run], check=True,
                       stdout=subprocess.DEVNULL, timeout=600,
                       env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "OMP_PROC_BIND": "false"})
        with h5py.File(folder + "/out/cost/metrics.h5") as file:
            return {part: 1e3 * statistics.median(file["step"][part + "_seconds"][2:].mean(axis=1)) for part in PARTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the halograd to measure")
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--topology", default="ring")
    parser.add_argument("--batch", type=int, default=64, help="over all ranks")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--put", action="store_true", help="by MPI_Put, as between nodes")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--compute-ms", type=float, default=0)
    arguments = parser.parse_args()

    rounds = {kind: [] for kind in KINDS}
    for _ in range(arguments.rounds):
        for kind in KINDS:
            rounds[kind].append(parts_of_a_step(arguments, kind))
    ms = {kind: {part: statistics.median(each[part] for each in rounds[kind]) for part in PARTS} for kind in KINDS}
    added = {kind: sum(ms[kind][part] - ms["none"][part] for part in ("wait", "update")) for kind in KINDS}
    print(f"{arguments.network}, batch {arguments.batch}, {arguments.ranks} ranks of {arguments.threads} threads, "
          f"{arguments.topology}{', by MPI_Put' if arguments.put else ''}, latency {arguments.latency_ms:g} ms, "
          f"computing at least {arguments.compute_ms:g} ms\n"
          "| averaging | compute ms | wait | update | wait and update more than none |\n|---|---|---|---|---|")
    for kind in KINDS:
        print(f"| {kind} | " + " | ".join(f"{ms[kind][part]:.1f}" for part in ("compute", "wait", "update")) +
              f" | {added[kind]:+.1f} |")
    if added["adapt_then_combine"] > 0:
        print(f"hidden: {100 * (1 - added['combine_then_adapt'] / added['adapt_then_combine']):.0f} %")
    else:
        print("hidden: not to be told, the exchange is lost in the noise")


if __name__ == "__main__":
    main()
