#!/usr/bin/env python3
"""Seconds per step over a network: configurations of halograd, and PyTorch's DistributedDataParallel, on hosts of a lab
(tests/network/lab.py), beside computing alone.

    network.py --program build/openmp/halograd [--hosts 4] [--rate 1000] [--network resnet18] [--batch 2] [--steps 12]
               [--run NAME "averager.name=neighbour topology.kind=one_peer_exponential"]...

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

WARM_UP = 3  # steps
CONFIGURATIONS = {
    "allreduce": "averager.name=allreduce",
    "neighbour, ring": "averager.name=neighbour",
    "neighbour, one-peer exponential": "averager.name=neighbour topology.kind=one_peer_exponential",
    "neighbour, ring, any staleness": "averager.name=neighbour averager.staleness=-1",
    "push-sum, overlapped": "averager.name=push_sum averager.overlap=true topology.kind=one_peer_exponential",
    "neighbour, ring, int8": "averager.name=neighbour averager.codec=int8",
    "neighbour, ring, int8, every 8": "averager.name=neighbour averager.codec=int8 averager.every=8",
    "neighbour, one-peer exponential, every 8":
        "averager.name=neighbour topology.kind=one_peer_exponential averager.every=8",
    "neighbour, one-peer exponential, every 16":
        "averager.name=neighbour topology.kind=one_peer_exponential averager.every=16",
}
HOOKS = ["fp32", "bf16", "powersgd"]


def median(steps, period=1):
    """Of the seconds of each rank's steps: the mean over ranks of the medians of their means over periods."""
    means = [np.asarray(own)[:len(own) // period * period].reshape(-1, period).mean(axis=1) for own in steps]
    return float(np.mean([np.median(own) for own in means if len(own) > 0]))


def halograd(lab, arguments, ranks, settings):
    """Seconds per step, megabytes per step by the start table and by the interface."""
    with tempfile.TemporaryDirectory() as folder:
        run_file = write_run_file(folder, f'network.name = "{arguments.network}"', (32, 32, 3), arguments.batch * ranks,
                                  arguments.steps)
        before = [lab.sent_bytes(host) for host in range(ranks)]
        try:
            out = train(lab, arguments.program, run_file, settings.split(), hosts=ranks, timeout=arguments.limit)
        except RuntimeError as error:
            return None, str(error).split()
        sent = max(lab.sent_bytes(host) - bytes_before for host, bytes_before in enumerate(before))
        period = re.search(r"\.every=(\d+)", settings)
        seconds = median(step_seconds(run_file, arguments.batch, WARM_UP), int(period.group(1)) if period else 1)
        said = re.search(r"exchange +([\d.]+) (\w+) sent", out)
        model = float(said.group(1)) * {"B": 1e-6, "kB": 1e-3, "MB": 1, "GB": 1e3}[said.group(2)] if said else 0
        return seconds, (model, sent / arguments.steps / 1e6)


def ddp_rank(arguments):
    """One rank of PyTorch: each step's seconds on standard output."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    network = networks(torch)[arguments.network]().to(memory_format=torch.channels_last)
    replica = torch.nn.parallel.DistributedDataParallel(network)
    if arguments.ddp == "bf16":
        replica.register_comm_hook(None, default_hooks.bf16_compress_hook)
    if arguments.ddp == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        replica.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(arguments.batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (arguments.batch,))
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(replica(images), labels).backward()
        optimizer.step()
        print(f"step {time.perf_counter() - begin}", flush=True)
    dist.barrier()


def ddp(lab, arguments, ranks, hook):
    command = [arguments.python, os.path.abspath(__file__), "--ddp", hook, "--network", arguments.network, "--batch",
               arguments.batch, "--steps", arguments.steps]
    before = [lab.sent_bytes(host) for host in range(ranks)]
    runs = [lab.start(command, os.getcwd(), {
        "MASTER_ADDR": lab.names[0], "MASTER_PORT": "29500", "RANK": str(rank), "WORLD_SIZE": str(ranks),
        "GLOO_SOCKET_IFNAME": "eth0"}, arguments.limit, host=rank) for rank in range(ranks)]
    results = [run.wait() for run in runs]
    if any(result.status != 0 for result in results):
        return None, results[0].err.strip().splitlines()[-1:]
    sent = max(lab.sent_bytes(host) - bytes_before for host, bytes_before in enumerate(before))
    steps = [[float(text) for text in re.findall(r"^step (\S+)", result.out, re.M)][WARM_UP:] for result in results]
    return median(steps), (None, sent / arguments.steps / 1e6)


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
    parser.add_argument("--rate", type=int, default=1000, help="Mbit/s of each host")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--batch", type=int, default=2, help="images per rank and step")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--limit", type=int, default=120, help="seconds that one run may take")
    parser.add_argument("--run", nargs=2, action="append", metavar=("NAME", "SETTINGS"),
                        help="a configuration in the place of the usual ones: keys of the run file, with blanks between")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--ddp", choices=HOOKS, help=argparse.SUPPRESS)  # a rank of PyTorch
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.ddp:
        ddp_rank(arguments)
        return
    try:
        lab = Lab(arguments.hosts, arguments.rate)
    except CannotRun as reason:
        sys.exit(f"network.py: {reason}")
    with lab:
        print(f"{arguments.network}, {arguments.batch} images per rank, {arguments.hosts} hosts at {arguments.rate} Mbit/s\n\n"
              "| what | seconds per step | without exchange = 1 | MB sent per step and host | MB of the model |\n"
              "|---|---|---|---|---|")
        nothing = "averager.name=none"
        measured = halograd(lab, arguments, arguments.hosts, nothing)
        computing, details = measured
        if computing is None:
            sys.exit(f"network.py: {details}")
        other_bytes = details[1]
        print_row("halograd, no exchange", measured, computing, other_bytes)
        print_row("halograd, one rank alone", halograd(lab, arguments, 1, nothing), computing)
        for name, settings in arguments.run or CONFIGURATIONS.items():
            print_row(name, halograd(lab, arguments, arguments.hosts, settings), computing, other_bytes)
        if not arguments.no_torch:
            print_row("PyTorch, one rank alone", ddp(lab, arguments, 1, "fp32"), computing)
            for hook in HOOKS:
                print_row(f"DDP, gloo, {hook}", ddp(lab, arguments, arguments.hosts, hook), computing)


if __name__ == "__main__":
    main()
