#!/usr/bin/env python3
"""Accuracy of the mean model by averager and topology, at equal epochs, against allreduce: the table of docs/scaling.md.

    averager_accuracy.py --program build/openmp/halograd [--run-file inputs/digits.toml] [--ranks 8] [--seeds 3]
        [--epochs 10] [--only NAME ...]

Prints a row an averager: mean over the seeds of the mean model's accuracy after the last epoch on each topology, its
difference from allreduce in points, and MB sent a rank and step. Ranks run with one thread each.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

TOPOLOGIES = ("ring", "torus2d", "exponential")
AVERAGERS = {
    "neighbour, combine-then-adapt": ["name=neighbour"],
    "neighbour, adapt-then-combine": ["name=neighbour", "order=adapt_then_combine"],
    "momentum averaged": ["name=neighbour", "momentum=averaged"],
    "bf16": ["name=neighbour", "codec=bf16"],
    "int8": ["name=neighbour", "codec=int8"],
    "top_k, 10 %": ["name=neighbour", "codec=top_k", "kept_share=0.1"],
    "every 4": ["name=neighbour", "every=4"],
    "every 4, global every 16": ["name=neighbour", "every=4", "global_every=16"],
    "consensus target 4, at most 16": ["name=neighbour", "every=16", "consensus_target=4"],
    "hierarchical, 2 ranks a node": ["name=hierarchical"],
    "fast, learning rate / (d + 1)": ["name=fast"],
}
WITHOUT_TOPOLOGY = {
    "allreduce": ["name=allreduce"],
    "easgd, every 4": ["name=easgd", "every=4"],
    "local SGD, exact every 8": ["name=none", "global_every=8"],
    "none": ["name=none"],
}
DEGREE = {"ring": 2, "torus2d": 3, "exponential": 3}  # of 8 ranks


def train(arguments, keys, seed):
    """The mean model's accuracy in per cent, and MB sent a rank and step."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false", OMP_WAIT_POLICY="passive")
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.mpiexec, "-n", str(arguments.ranks), arguments.program, "train", arguments.run_file, "--json"]
        for key in [f"output.folder={folder}", "output.checkpoint_epochs=0", f"training.epochs={arguments.epochs}",
                    f"training.seed={seed}", *keys]:
            command += ["--set", key]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    return 100 * result["mean_model_accuracy"], result["bytes_sent"] / 1e6


def cell(arguments, keys, reference):
    runs = [train(arguments, keys, seed) for seed in range(1, arguments.seeds + 1)]
    accuracy = statistics.mean(each[0] for each in runs)
    sent = statistics.mean(each[1] for each in runs)
    difference = "" if reference is None else f" ({accuracy - reference:+.2f})"
    return accuracy, f"{accuracy:.2f}{difference}, {sent:.2f} MB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--run-file", default="inputs/digits.toml")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.05, help="of the run file, for fast")
    parser.add_argument("--only", nargs="*", help="rows")
    arguments = parser.parse_args()

    print("| averager | " + " | ".join(TOPOLOGIES) + " |\n|---" * 1 + "|---" * len(TOPOLOGIES) + "|", flush=True)
    reference = None
    for name, keys in WITHOUT_TOPOLOGY.items():
        if arguments.only and name not in arguments.only and name != "allreduce":
            continue
        accuracy, text = cell(arguments, [f"averager.{key}" for key in keys], reference)
        reference = accuracy if reference is None else reference
        print(f"| {name} | {text}" + " |" * len(TOPOLOGIES), flush=True)
    for name, keys in AVERAGERS.items():
        if arguments.only and name not in arguments.only:
            continue
        row = []
        for topology in TOPOLOGIES:
            settings = [f"averager.{key}" for key in keys] + [f"topology.kind={topology}"]
            if "name=fast" in keys:
                settings.append(f"optimizer.learning_rate={arguments.learning_rate / (DEGREE[topology] + 1)}")
            if "name=hierarchical" in keys:
                settings.append("comm.ranks_per_node=2")
            row.append(cell(arguments, settings, reference)[1])
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
