#!/usr/bin/env python3
"""Holds the model of the step against real runs on hosts of a network lab (tests/network/lab.py).

    step_model_check.py [--program build/openmp/halograd] [--hosts 2,4,8] [--rate-mbit 100,1000,10000] [--compute-ms 500]
        [--width 2048] [--ways "ring;ring, int8"] [--plan] [--run FILE --set KEY=VALUE ...] [--batch 1]
        [--rounds 1] [--spread 0]

One rank per host; ranks sleep until the computing of a step has taken --compute-ms (comm.inject.compute_us), so that
they do not contend for the cores of this machine. Latency and bandwidth of the lab's network, and what a step takes
without exchange, are measured (halograd simulate on two of the hosts; averager "none") and given to the model. Prints
predicted and measured steps: means over ranks and steps; with --rounds the medians of several runs, all ways in turn.

With --plan the ways are all that halograd plan considers for these hosts and does not refuse, and the last line says
how far its pick is from the fastest that was measured. With --run, the steps of a run file on synthetic data, --batch
images for each replica, are planned and run instead; they compute, and contend for the cores: as many plans as there
are hosts measure at the same time, and the prediction is their mean. What the transport takes of a rank's computing is
measured too, five times, and counts as often as hosts share a core. So replicas of several ranks are held against the
model (--set parallel.spatial=[2,1]). Takes root.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from runs import ENVIRONMENT, CannotRun, Lab, chosen, sets, step_seconds, train, write_run_file

NETWORK = """network.name = "wide"
network.layer = [{{type = "flatten"}}, {{type = "dense", channels = {width}}}, {{type = "relu"}}, {{type = "dense", channels = 10}}]
"""
WARM_UP, COUNTED = 4, 16  # steps; the most that plan takes from one exchange to the next is 16
# name: the averager's keys, the row of simulate's table
WAYS = {
    "ring": ([], ("neighbour", "ring")),
    "ring, adapt first": (["averager.order=adapt_then_combine"], ("neighbour", "ring")),
    "ring, every 4": (["averager.every=4"], ("neighbour", "ring")),
    "ring, int8": (["averager.codec=int8"], ("neighbour", "ring")),
    "ring, bf16": (["averager.codec=bf16"], ("neighbour", "ring")),
    "ring, top_k": (["averager.codec=top_k"], ("neighbour", "ring")),
    "exponential": (["topology.kind=exponential"], ("neighbour", "exponential")),
    "one peer": (["topology.kind=one_peer_exponential"], ("gossip", "one_peer_exponential")),
    "push_sum": (["averager.name=push_sum"], ("push_sum", "ring")),
    "push_sum, overlap": (["averager.name=push_sum", "averager.overlap=true"], ("push_sum", "ring")),
    "ring, free": (["averager.staleness=-1"], ("neighbour", "ring")),
    "allreduce": (["averager.name=allreduce"], ("ring_allreduce", "")),
}


class Check:
    def __init__(self, arguments, folder, hosts, rate_mbit):
        self.arguments, self.folder, self.hosts = arguments, folder, hosts
        self.replicas = hosts
        self.parameters = arguments.width * (16 * 16 + 1) + 10 * (arguments.width + 1)
        self.lab = Lab(hosts, rate_mbit)
        measured = [self.network(rate_mbit) for _ in range(5 if arguments.run else 1)]
        self.latency_us, self.bandwidth_gb, transport_ns = map(float, np.median(measured, axis=0))
        self.transport_ns = transport_ns * max(1, hosts / os.cpu_count()) if arguments.run else 0

    def network(self, rate_mbit):
        """Of two of the hosts, as halograd simulate measures it."""
        with Lab(2, rate_mbit) as pair:
            words = [self.arguments.program, "simulate", "--ranks", "2", "--topology", "ring", "--threads", "1",
                     "--memory-gb", "10"]
            run = pair.start(pair.launched(words), self.folder, ENVIRONMENT, timeout=60)
            run.until("^steps: until", timeout=60)
            pair.end_all()
            run.wait()
        found = [re.search(rf"^{name} +([0-9.e+-]+) .*measured", "".join(line for _, line in run.out), re.MULTILINE)
                 for name in ("latency", "bandwidth", "transport")]
        if None in found:
            sys.exit(f"the network could not be measured\n{run.text()}")
        return [float(each.group(1)) for each in found]

    def write_run_file(self):
        if self.arguments.run:
            path = os.path.join(self.folder, "run.toml")
            shutil.copyfile(self.arguments.run, path)
            batch = self.replicas * self.arguments.batch
            return path, ["name=run", "training.epochs=1", "training.threads=1", f"training.batch={batch}",
                          f"data.synthetic_train={batch * (WARM_UP + COUNTED)}", "data.synthetic_test=8",
                          "output.checkpoint_epochs=0", "output.print_steps=0", *self.arguments.set]
        network = NETWORK.format(width=self.arguments.width)
        path = write_run_file(self.folder, network, (16, 16, 1), batch=self.hosts * self.arguments.batch,
                              steps=WARM_UP + COUNTED)
        return path, [f"comm.inject.compute_us={1000 * self.arguments.compute_ms}"]

    def measured(self, words):
        """Milliseconds of a step."""
        path, settings = self.write_run_file()
        train(self.lab, self.arguments.program, path, [*settings, *words], timeout=300)
        # At a free pace a slow rank may have made no step after the first ones.
        steps = step_seconds(path, self.arguments.batch, WARM_UP)
        return 1e3 * float(np.mean([own.mean() for own in steps if own.size > 0]))

    def predicted(self, words, row, compute_ms):
        table = os.path.join(self.folder, "table.csv")
        keys = [word for word in words if word.startswith("averager.") and "allreduce" not in word]
        subprocess.run([self.arguments.program, "simulate", "--ranks", str(self.hosts), "--topology",
                        row[1] if row[0] in ("neighbour", "push_sum") else "ring", "--compute-ms", str(compute_ms),
                        "--latency-us", str(self.latency_us), "--bandwidth-gb", str(self.bandwidth_gb),
                        "--parameters", str(self.parameters), "--threads", "1", "--csv", table, *sets(keys)],
                       check=True, stdout=subprocess.DEVNULL, timeout=100, env={**os.environ, **ENVIRONMENT})
        with open(table, encoding="utf-8") as file:
            rows = {(each["averager"], each["topology"]): each for each in csv.DictReader(file)}
        return 1e3 * float(rows[row]["step_seconds"])

    def planned(self):
        """What halograd plan considers: names, keys and predicted milliseconds, the pick first."""
        path, settings = self.write_run_file()
        facts = {"batch": self.arguments.batch, "max-batch": self.arguments.batch * self.hosts, "nodes": self.hosts,
                 "latency-us": self.latency_us, "bandwidth-gb": self.bandwidth_gb, "transport-ns": self.transport_ns,
                 "spread": self.arguments.spread, "threads": 1, "seconds": 10 if self.arguments.run else 1}
        command = [self.arguments.program, "plan", "--config", path, *sets(settings), "--json",
                   *(word for name, value in facts.items() for word in (f"--{name}", str(value)))]
        copies = self.hosts if self.arguments.run else 1
        with ThreadPoolExecutor(copies) as pool:
            plans = list(pool.map(lambda _: json.loads(subprocess.run(
                command, check=True, stdout=subprocess.PIPE, encoding="utf-8", timeout=200,
                env={**os.environ, **ENVIRONMENT}).stdout), range(copies)))
        self.replicas = plans[0]["ranks"] // plans[0]["group_ranks"]

        def name(each):
            return f"{each['averager']}, {each['topology']}, {each['way']}, every {each['period']:g}"

        found = {}
        for plan in plans:
            for each in plan["candidates"]:
                if not each["refused"]:
                    found.setdefault(name(each), []).append(1e3 * each["step_seconds"])
        possible = [each for each in plans[0]["candidates"] if not each["refused"]]
        possible.sort(key=lambda each: (each != plans[0]["recommended"], each["step_seconds"]))
        return [(name(each), [f"{key}={value}" for key, value in each["keys"].items()], float(np.mean(found[name(each)])))
                for each in possible]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/openmp/halograd", type=os.path.abspath)
    parser.add_argument("--hosts", default="2,4,8")
    parser.add_argument("--rate-mbit", default="100,1000,10000")
    parser.add_argument("--compute-ms", type=float, default=500)
    parser.add_argument("--width", type=int, default=2048, help="of the hidden layer: 267 values per unit are sent")
    parser.add_argument("--ways", default="", help="names of ways to average, separated by semicolons")
    parser.add_argument("--plan", action="store_true", help="run what halograd plan considers instead")
    parser.add_argument("--run", help="a run file on synthetic data: with --plan, and computing as it does")
    parser.add_argument("--batch", type=int, default=1, help="images of a replica and step")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each way, of which the median counts")
    parser.add_argument("--spread", type=float, default=0, help="of computing, as halograd plan is told it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the run file")
    arguments = parser.parse_args()
    arguments.plan = arguments.plan or arguments.run is not None
    names = chosen(parser, arguments.ways, WAYS)
    print("| hosts | Mbit/s | MB/s, us measured | averaging | predicted ms | measured ms | apart |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for hosts in map(int, arguments.hosts.split(",")):
            for rate in map(float, arguments.rate_mbit.split(",")):
                try:
                    check = Check(arguments, folder, hosts, rate)
                except CannotRun as reason:
                    sys.exit(f"no network lab: {reason}")
                with check.lab:
                    planned = check.planned() if arguments.plan else []
                    alone = [check.measured(["averager.name=none"])]
                    network = f"{1000 * check.bandwidth_gb:.1f}, {check.latency_us:.0f}"
                    if arguments.run:
                        print(f"the transport takes {check.transport_ns:.2f} ns of computing per byte", flush=True)
                    cases = planned if arguments.plan else [
                        (name, WAYS[name][0], check.predicted(*WAYS[name], alone[0])) for name in names]
                    runs = [[] for _ in cases]
                    for this in range(arguments.rounds):
                        if this > 0:
                            alone.append(check.measured(["averager.name=none"]))
                        for (name, words, _), own in zip(cases, runs):
                            own.append(check.measured(words))
                            print(f"{name}: {own[-1]:.1f} ms", file=sys.stderr, flush=True)
                    steps = [float(np.median(own)) for own in runs]
                    print(f"| {hosts} | {rate:g} | {network} | none |  | {np.median(alone):.1f} | |", flush=True)
                    for (name, _, model), step in zip(cases, steps):
                        print(f"| {hosts} | {rate:g} | {network} | {name} | {model:.1f} | {step:.1f} "
                              f"| {100 * (step / model - 1):+.1f} % |", flush=True)
                    if arguments.plan:
                        fastest = min(range(len(steps)), key=lambda each: steps[each])
                        print(f"picked: {cases[0][0]}; fastest: {cases[fastest][0]}; "
                              f"{100 * (steps[0] / steps[fastest] - 1):.1f} % apart", flush=True)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"step_model_check: {error}")
