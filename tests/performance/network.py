#!/usr/bin/env python3
"""Seconds per step over a network: configurations of halograd, and what PyTorch has, on hosts of a lab
(tests/network/lab.py), beside computing alone.

    network.py --program build/openmp/halograd [--hosts 4] [--rate 1000] [--network resnet18] [--batch 2] [--steps 12]
               [--ranks-per-host 1] [--run NAME "averager.name=neighbour topology.kind=one_peer_exponential"]...

Medians over each rank's own steps in one run, without the first three, and their mean over ranks; with averager.every = H
the medians are over means of H steps, of which one has an exchange, so that there should be several times H steps. MB per
step that the busiest host sends, from the counter of its interface and less what a run without any exchange sends, beside
what the start table says. Hosts share the cores of this machine, so the time to compare with is that of as many ranks
without an exchange. The images are synthetic, of 32 x 32 x 3. Needs root; PyTorch's rows need torch.
"""

import argparse
import os
import re
import sys
import tempfile
import time

import numpy as np

from runs import CannotRun, Lab, step_seconds, train, write_run_file
from torch_networks import networks
from torch_replicas import PERIOD, WAYS, environment, replicate

WARM_UP = 3  # steps
CONFIGURATIONS = {
    "allreduce": "averager.name=allreduce",
    "allreduce, bf16": "averager.name=allreduce averager.codec=bf16",
    "neighbour, ring": "averager.name=neighbour",
    "neighbour, one-peer exponential": "averager.name=neighbour topology.kind=one_peer_exponential",
    "neighbour, ring, any staleness": "averager.name=neighbour averager.staleness=-1",
    "push-sum, overlapped": "averager.name=push_sum averager.overlap=true topology.kind=one_peer_exponential",
    "neighbour, ring, int8": "averager.name=neighbour averager.codec=int8",
    "neighbour, ring, int8, every 2": "averager.name=neighbour averager.codec=int8 averager.every=2",
    "neighbour, ring, int8, every 8": "averager.name=neighbour averager.codec=int8 averager.every=8",
    "neighbour, one-peer exponential, every 8":
        "averager.name=neighbour topology.kind=one_peer_exponential averager.every=8",
    "neighbour, one-peer exponential, every 16":
        "averager.name=neighbour topology.kind=one_peer_exponential averager.every=16",
}


def median(steps, period=1):
    """Of the seconds of each rank's steps: the mean over ranks of the medians of their means over periods."""
    means = [np.asarray(own)[:len(own) // period * period].reshape(-1, period).mean(axis=1) for own in steps]
    return float(np.mean([np.median(own) for own in means if len(own) > 0]))


def halograd(lab, arguments, hosts, settings, ranks_per_host=1):
    """Seconds per step; megabytes that a host sends per step by the start table and by the interface."""
    with tempfile.TemporaryDirectory() as folder:
        run_file = write_run_file(folder, f'network.name = "{arguments.network}"', (32, 32, 3),
                                  arguments.batch * hosts * ranks_per_host, arguments.steps)
        before = [lab.sent_bytes(host) for host in range(hosts)]
        try:
            out = train(lab, arguments.program, run_file, settings.split(), hosts=hosts, timeout=arguments.limit,
                        ranks_per_host=ranks_per_host)
        except RuntimeError as error:
            return None, str(error).split()
        sent = max(lab.sent_bytes(host) - bytes_before for host, bytes_before in enumerate(before))
        period = re.search(r"\.every=(\d+)", settings)
        seconds = median(step_seconds(run_file, arguments.batch, WARM_UP), int(period.group(1)) if period else 1)
        said = re.search(r"([\d.]+) (\w+) leave a node per step", out)
        model = float(said.group(1)) * {"B": 1e-6, "kB": 1e-3, "MB": 1, "GB": 1e3}[said.group(2)] if said else 0
        return seconds, (model, sent / arguments.steps / 1e6)


def torch_rank(arguments):
    """One rank of PyTorch: each step's seconds on standard output."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo")
    network = networks(torch)[arguments.network]().to(memory_format=torch.channels_last)
    replica, after_step = replicate(torch, network, arguments.torch)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(arguments.batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (arguments.batch,))
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(replica(images), labels).backward()
        optimizer.step()
        after_step()
        print(f"step {time.perf_counter() - begin}", flush=True)
    torch.distributed.barrier()


def pytorch(lab, arguments, ranks, way):
    command = [arguments.python, os.path.abspath(__file__), "--torch", way, "--network", arguments.network, "--batch",
               arguments.batch, "--steps", arguments.steps]
    before = [lab.sent_bytes(host) for host in range(ranks)]
    runs = [lab.start(command, os.getcwd(), {**environment(rank, ranks, lab.names[0]), "GLOO_SOCKET_IFNAME": "eth0"},
                      arguments.limit, host=rank) for rank in range(ranks)]
    results = [run.wait() for run in runs]
    if any(result.status != 0 for result in results):
        return None, results[0].err.strip().splitlines()[-1:]
    sent = max(lab.sent_bytes(host) - bytes_before for host, bytes_before in enumerate(before))
    steps = [[float(text) for text in re.findall(r"^step (\S+)", result.out, re.M)][WARM_UP:] for result in results]
    return median(steps, PERIOD if "every" in way else 1), (None, sent / arguments.steps / 1e6)


def print_row(name, measured, computing, other_bytes=0):
    seconds, details = measured
    if seconds is None:
        print(f"| {name} | failed: {' '.join(details)} | | | |", flush=True)
        return
    model, sent = details
    said = "" if model is None else f"{model:.1f}"
    print(f"| {name} | {seconds:.3f} | {seconds / computing:.2f} | {sent - other_bytes:.1f} | {said} |", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath, default="build/openmp/halograd")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that may have torch")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ranks-per-host", type=int, default=1, help="of halograd's rows; PyTorch's are one per host")
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each host")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--batch", type=int, default=2, help="images per rank and step")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--limit", type=int, default=120, help="seconds that one run may take")
    parser.add_argument("--run", nargs=2, action="append", metavar=("NAME", "SETTINGS"),
                        help="a configuration in the place of the usual ones: keys of the run file, with blanks between")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--torch", choices=WAYS, help=argparse.SUPPRESS)  # a rank of PyTorch
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.torch:
        torch_rank(arguments)
        return
    try:
        lab = Lab(arguments.hosts, arguments.rate)
    except CannotRun as reason:
        sys.exit(f"network.py: {reason}")
    with lab:
        print(f"{arguments.network}, {arguments.batch} images per rank, {arguments.ranks_per_host} on each of "
              f"{arguments.hosts} hosts at {arguments.rate} Mbit/s\n\n"
              "| what | seconds per step | without exchange = 1 | MB sent per step and host | MB of the model |\n"
              "|---|---|---|---|---|")
        nothing = "averager.name=none"
        measured = halograd(lab, arguments, arguments.hosts, nothing, arguments.ranks_per_host)
        computing, details = measured
        if computing is None:
            sys.exit(f"network.py: {details}")
        other_bytes = details[1]
        print_row("halograd, no exchange", measured, computing, other_bytes)
        print_row("halograd, one rank alone", halograd(lab, arguments, 1, nothing), computing)
        for name, settings in arguments.run or CONFIGURATIONS.items():
            print_row(name, halograd(lab, arguments, arguments.hosts, settings, arguments.ranks_per_host), computing,
                      other_bytes)
        if not arguments.no_torch:
            print_row("PyTorch, one rank alone", pytorch(lab, arguments, 1, WAYS[0]), computing)
            for way in WAYS:
                print_row(f"PyTorch, {way}", pytorch(lab, arguments, arguments.hosts, way), computing)


if __name__ == "__main__":
    main()
