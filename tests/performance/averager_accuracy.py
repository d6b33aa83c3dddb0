#!/usr/bin/env python3
"""Accuracy of the mean model by averager and topology, at equal epochs, against allreduce: the tables of
docs/measurements/averaging.md.

    averager_accuracy.py --program build/openmp/halograd [--run-file inputs/digits.toml] [--ranks 8] [--seeds 3]
        [--epochs 20] [--only ROW ...] [--set KEY=VALUE ...]

Prints a row per averager: mean and standard deviation over the seeds of the mean model's accuracy after the last epoch
in per cent, its difference from allreduce in points, and MB sent per rank and step. Ranks run with one thread each.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

# Settings of [averager], unless they name another table.
ALLREDUCE = {"allreduce": ["name=allreduce"]}
NO_TOPOLOGY = {
    "easgd, every 4": ["name=easgd", "every=4"],
    "local SGD, exact every 8": ["name=none", "global_every=8"],
    "none": ["name=none"],
}
STATIC = {
    "neighbour, combine-then-adapt": ["name=neighbour"],
    "neighbour, adapt-then-combine": ["name=neighbour", "order=adapt_then_combine"],
    "momentum averaged": ["name=neighbour", "momentum=averaged"],
    "staleness 4": ["name=neighbour", "staleness=4", "comm.slots=3"],
    "any staleness": ["name=neighbour", "staleness=-1", "comm.slots=3"],
    "bf16": ["name=neighbour", "codec=bf16"],
    "int8": ["name=neighbour", "codec=int8"],
    "top_k, 10 %": ["name=neighbour", "codec=top_k", "kept_share=0.1"],
    "every 4": ["name=neighbour", "every=4"],
    "every 4, global every 16": ["name=neighbour", "every=4", "global_every=16"],
    "consensus target 4, at most 16": ["name=neighbour", "every=16", "consensus_target=4"],
    "push_sum": ["name=push_sum", "topology.weights=out_degree"],
    "push_sum, overlap": ["name=push_sum", "topology.weights=out_degree", "overlap=true"],
    "hierarchical, 2 ranks per node": ["name=hierarchical", "comm.ranks_per_node=2"],
    "fast, learning rate / (d + 1)": ["name=fast"],
}
UNDIRECTED = {"ad_psgd": ["name=ad_psgd"]}
DYNAMIC = {
    "neighbour, one peer": ["name=neighbour"],
    "push_sum, one peer": ["name=push_sum"],
    "push_sum, one peer, overlap": ["name=push_sum", "overlap=true"],
    "gossip_grad": ["name=gossip_grad"],
    "gossip_grad, exact every 16": ["name=gossip_grad", "global_every=16"],
}
TABLES = [
    (["any"], ALLREDUCE),
    (["any"], NO_TOPOLOGY),
    (["ring", "torus2d", "exponential"], STATIC),
    (["ring", "torus2d", "complete"], UNDIRECTED),
    (["one_peer_exponential", "random_matching", "rotating_exponential"], DYNAMIC),
]
DEGREE = {"ring": 2, "torus2d": 3, "exponential": 3}  # of 8 ranks


def settings(arguments, keys, topology):
    result = [key if "." in key.split("=")[0] else f"averager.{key}" for key in keys]
    if topology != "any":
        result.append(f"topology.kind={topology}")
    if "name=fast" in keys:
        result.append(f"optimizer.learning_rate={arguments.learning_rate / (DEGREE[topology] + 1)}")
    return result


def train(arguments, keys, seed):
    """The mean model's accuracy in per cent, and MB sent per rank and step; None where the training diverges."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false", OMP_WAIT_POLICY="passive")
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.mpiexec, "-n", str(arguments.ranks), arguments.program, "train", arguments.run_file, "--json"]
        for key in [f"output.folder={folder}", "output.checkpoint_epochs=0", f"training.epochs={arguments.epochs}",
                    f"training.seed={seed}", *arguments.set, *keys]:
            command += ["--set", key]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "is not finite" in done.stderr:
            return None
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    return 100 * result["mean_model_accuracy"], result["bytes_sent"] / 1e6


def cell(arguments, keys, reference):
    """Mean accuracy over the seeds, and the text of a cell; `reference`: that of allreduce, if it is known."""
    runs = [train(arguments, keys, seed) for seed in range(1, arguments.seeds + 1)]
    if None in runs:
        return None, f"{runs.count(None)} of {len(runs)} not finite"
    accuracies = [each[0] for each in runs]
    accuracy = statistics.mean(accuracies)
    spread = f" ± {statistics.stdev(accuracies):.2f}" if arguments.seeds > 1 else ""
    difference = "" if reference is None else f" ({accuracy - reference:+.2f})"
    return accuracy, f"{accuracy:.2f}{spread}{difference}, {statistics.mean(each[1] for each in runs):.2f} MB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--run-file", default="inputs/digits.toml")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.05, help="of the run file, for fast")
    parser.add_argument("--only", nargs="*", help="these rows, and allreduce")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every run")
    arguments = parser.parse_args()

    reference = None
    for topologies, averagers in TABLES:
        rows = {name: keys for name, keys in averagers.items()
                if averagers is ALLREDUCE or not arguments.only or name in arguments.only}
        if not rows:
            continue
        print("\n| averager | " + " | ".join(topologies) + " |\n|---" + "|---" * len(topologies) + "|", flush=True)
        for name, keys in rows.items():
            cells = [cell(arguments, settings(arguments, keys, topology), reference) for topology in topologies]
            print(f"| {name} | " + " | ".join(text for _, text in cells) + " |", flush=True)
            reference = cells[0][0] if averagers is ALLREDUCE else reference


if __name__ == "__main__":
    main()
