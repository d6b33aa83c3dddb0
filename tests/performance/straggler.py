#!/usr/bin/env python3
"""What one slow rank costs: seconds of the whole program, and until the mean model is good, with and without it.

    straggler.py [RUN_FILE] [--program build/openmp/halograd] [--mpiexec mpiexec] [--ranks 4] [--factor 4]
                 [--compute-ms 50] [--epochs 6] [--seeds 1] [--target 97] [--set KEY=VALUE ...]
                 [--ways "allreduce; neighbour, lockstep"]

For each way of averaging: the program's time from its start to its end by this script's clock, with all ranks alike and
with rank 1 `--factor` times slower, and until the mean model had `--target` per cent of the test set, interpolated between
the lines of two epochs; medians over the seeds. A step computes for at least `--compute-ms` by sleeping (comm.inject), so
that ranks may share cores.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from runs import chosen, sets

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs")
WAYS = {
    "allreduce": ["averager.name=allreduce"],
    "neighbour, lockstep": ["averager.name=neighbour"],
    "neighbour, staleness = -1": ["averager.name=neighbour", "averager.staleness=-1", "comm.slots=3"],
    "ad_psgd": ["averager.name=ad_psgd"],
    "push_sum, staleness = -1": ["averager.name=push_sum", "averager.staleness=-1"],
    "fast, staleness = -1": ["averager.name=fast", "averager.staleness=-1"],
}
ROW = re.compile(r"^ *\d+/\d+ +\S+ +\S+ +\S+ +([0-9.]+) ")  # of an epoch; the group is the mean model's score


def run(arguments, folder, words, slow):
    """(seconds of the whole program, seconds until the target; infinite: it was not reached)"""
    words = [*words, *arguments.set, f"training.epochs={arguments.epochs}", "training.threads=1",
             f"comm.inject.compute_us={1e3 * arguments.compute_ms}", "output.folder=runs"]
    if slow:
        words += ["comm.inject.slow_rank=1", f"comm.inject.slow_factor={arguments.factor}"]
    begin, reached, last = time.monotonic(), math.inf, None
    command = [arguments.mpiexec, "-n", str(arguments.ranks), arguments.program, "train", arguments.run_file, "--overwrite",
               *sets(words)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8") as process:
        for line in process.stdout:
            row = ROW.match(line)
            if not row or reached < math.inf:
                continue
            now, score = time.monotonic() - begin, float(row[1])
            if score >= arguments.target:
                reached = now
                if last:
                    reached -= (now - last[0]) * (score - arguments.target) / (score - last[1])
            last = now, score
    if process.returncode != 0:
        sys.exit(f"straggler: {' '.join(command)}: status {process.returncode}")
    return time.monotonic() - begin, reached


def medians(arguments, folder, words, slow):
    runs = [run(arguments, folder, [*words, f"training.seed={seed}"], slow) for seed in range(1, arguments.seeds + 1)]
    return [statistics.median(each) for each in zip(*runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_file", nargs="?", default=os.path.join(INPUTS, "digits.toml"), type=os.path.abspath)
    parser.add_argument("--program", default="build/openmp/halograd", type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--factor", type=float, default=4)
    parser.add_argument("--compute-ms", type=float, default=50)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--target", type=float, default=97)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--ways", default="", help="names of ways to average, separated by semicolons")
    arguments = parser.parse_args()
    ways = chosen(parser, arguments.ways, WAYS)
    print(f"| {arguments.ranks} ranks, {arguments.epochs} epochs, one rank {arguments.factor:g} times slower "
          f"| all alike, s | one slow, s | ratio | to {arguments.target:g} %: all alike, s | one slow, s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in ways:
            even, even_reached = medians(arguments, folder, WAYS[name], False)
            slow, slow_reached = medians(arguments, folder, WAYS[name], True)
            print(f"| {name} | {even:.1f} | {slow:.1f} | {slow / even:.2f} | {even_reached:.1f} | {slow_reached:.1f} |",
                  flush=True)


if __name__ == "__main__":
    main()
