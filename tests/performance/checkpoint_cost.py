#!/usr/bin/env python3
"""What checkpoints cost a training: seconds a step with one every few steps, beside none.

Training of resnet18 on synthetic images without and with checkpoints, in turn, over --rounds rounds. A checkpoint each
100 steps costs what one costs, over 100 steps: (time of a round with checkpoints - time of one without) / checkpoints.
The medians over the rounds are compared with a step. Nothing else may run on the machine.

    checkpoint_cost.py --program build/openmp/halograd [--network resnet18] [--batch 32] [--steps 24] [--every 12] [--rounds 8]
                       [--ranks 1] [--set output.compress=true] [--key local_steps]

With --key local_steps it is copies on the nodes that are written; MPIR_CVAR_NUM_CLIQUES=2 makes MPICH take the ranks for two
nodes, so that each copy is written twice.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import h5py

RUN = """
name = "cost"
[training]
epochs = 1
batch = {batch}
threads = 1
[data]
format = "synthetic"
synthetic_train = {images}
synthetic_test = 1
synthetic_shape = [32, 32, 3]
[network]
name = "{network}"
[optimizer]
learning_rate = 0.01
momentum = 0.9
[output]
print_steps = 0
checkpoint_epochs = 0
keep = 1
"""


def train(options, run, folder, every):
    """Seconds of all steps but the first, that warms up, and the checkpoints that were reported."""
    words = [options.program, "train", run, "--overwrite", "--set", f"output.{options.key}={every}",
             "--set", f"output.folder={folder}"]
    for word in options.set:
        words += ["--set", word]
    if options.ranks > 1:
        words = [options.mpiexec, "-n", str(options.ranks), *words]
    out = subprocess.run(words, check=True, encoding="utf-8", stdout=subprocess.PIPE).stdout
    with h5py.File(os.path.join(folder, "cost", "metrics.h5"), "r") as file:
        seconds = (options.batch / options.ranks / file["step/images_per_second"][()])[1:]
    # A rank that waits for another has the other's checkpoint in its step too: the slowest rank counts.
    return float(seconds.sum(axis=0).max()), [line.strip() for line in out.splitlines() if "checkpoint " in line and "step_" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--network", default="resnet18")
    for name, value in (("batch", 32), ("steps", 24), ("every", 12), ("rounds", 8), ("ranks", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--key", default="checkpoint_steps", choices=("checkpoint_steps", "local_steps"))
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    costs, steps, lines = [], [], []
    with tempfile.TemporaryDirectory(prefix="halograd_cost_", dir=".") as folder:
        run = os.path.join(folder, "run.toml")
        with open(run, "w", encoding="utf-8") as file:
            # one step more: a checkpoint at the last step would be written after it
            file.write(RUN.format(batch=options.batch, network=options.network, images=options.batch * (options.steps + 1)))
        for turn in range(options.rounds):
            order = (0, options.every) if turn % 2 == 0 else (options.every, 0)
            seconds = {}
            for every in order:
                seconds[every], reported = train(options, run, folder, every)
                lines = reported or lines
            checkpoints = options.steps // options.every
            costs.append((seconds[options.every] - seconds[0]) / checkpoints)
            steps.append(seconds[0] / options.steps)
            print(f"round {turn + 1}: {seconds[0]:.3f} s without, {seconds[options.every]:.3f} s with {checkpoints}", flush=True)
    cost, step = statistics.median(costs), statistics.median(steps)
    if options.key == "checkpoint_steps":
        print(lines[-1] if lines else "no checkpoint was reported")
    print(json.dumps({"step_seconds": step, "checkpoint_seconds": cost, "share_at_one_in_100_steps": cost / (100 * step),
                      "lowest_share": min(costs) / (100 * step), "highest_share": max(costs) / (100 * step)}))


if __name__ == "__main__":
    main()
