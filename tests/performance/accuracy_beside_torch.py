#!/usr/bin/env python3
"""Accuracy on CIFAR-10 after equal epochs: ways of averaging in halograd beside those of PyTorch, on ranks of this machine.

    accuracy_beside_torch.py --program build/openmp/halograd --data cifar-10-batches-bin [--python PYTHON] [--network resnet20]
        [--ranks 4] [--batch 32] [--epochs 5] [--seeds 2] [--ways "allreduce; PyTorch, DDP, fp32"]

Both train alike: images cropped and flipped, SGD with momentum, a warm-up of an epoch and half a cosine, initial weights of
He et al. (2015), one thread per rank. Accuracy in per cent is the mean model's on the test images. With DDP that is every
rank's, with the batch-norm statistics of the first one; with LocalSGD the mean is taken at the end. Prints a line per run,
seed by seed, and then the table. PyTorch's rows need torch.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys

import numpy as np

from averager_accuracy import train
from runs import chosen
from torch_networks import networks
from torch_replicas import WAYS, environment, replicate

RATE, MOMENTUM, DECAY = 0.1, 0.9, 1e-4  # inputs/cifar10_resnet20.toml
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PAD = 4  # pixels
PEER = "PyTorch, "
HALOGRAD = {
    "allreduce": ["name=allreduce"],
    "allreduce, bf16": ["name=allreduce", "codec=bf16"],
    "ring": ["topology.kind=ring"],
    "ring, any staleness": ["topology.kind=ring", "staleness=-1"],
    "ring, int8": ["topology.kind=ring", "codec=int8"],
    "ring, int8, every 2": ["topology.kind=ring", "codec=int8", "every=2"],
    "one-peer exponential": ["topology.kind=one_peer_exponential"],
    "one-peer exponential, every 4": ["topology.kind=one_peer_exponential", "every=4"],
    "one-peer exponential, every 16": ["topology.kind=one_peer_exponential", "every=16"],
}


def rate(step, per_epoch, epochs):
    """The learning rate, as lib/optimizers/schedule.cpp has it with warmup_epochs = 1 and name = "cosine"."""
    if step < per_epoch:
        return RATE * (step + 1) / (per_epoch + 1)
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - per_epoch) / ((epochs - 1) * per_epoch)))


def read(folder, names):
    records = np.concatenate([np.fromfile(os.path.join(folder, name), dtype=np.uint8) for name in names]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def torch_rank(arguments):
    """One rank of PyTorch; the first one prints the accuracy as a share."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    mean, deviation = (torch.tensor(each).reshape(1, 3, 1, 1) for each in (MEAN, DEVIATION))

    def normalised(images):
        return ((torch.from_numpy(images).float() / 255 - mean) / deviation).contiguous(memory_format=torch.channels_last)

    network = networks(torch)[arguments.network]().to(memory_format=torch.channels_last)
    for module in network.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
    replica, after_step = replicate(torch, network, arguments.torch)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)

    images, labels = read(arguments.data, [f"data_batch_{number}.bin" for number in range(1, 6)])
    padded = np.pad(images, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    shared, own = np.random.default_rng(arguments.seed), np.random.default_rng((arguments.seed, rank))
    per_epoch = len(images) // (arguments.batch * ranks)
    for epoch in range(arguments.epochs):
        order = shared.permutation(len(images))
        for index in range(per_epoch):
            begin = (index * ranks + rank) * arguments.batch
            chosen_images = order[begin:begin + arguments.batch]
            corners = own.integers(0, 2 * PAD + 1, (arguments.batch, 2))
            batch = np.stack([padded[image, :, top:top + 32, left:left + 32]
                              for image, (top, left) in zip(chosen_images, corners)])
            flipped = own.random(arguments.batch) < 0.5
            batch[flipped] = batch[flipped][..., ::-1]
            for group in optimizer.param_groups:
                group["lr"] = rate(epoch * per_epoch + index, per_epoch, arguments.epochs)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(replica(normalised(batch)), torch.from_numpy(labels[chosen_images]))
            loss.backward()
            optimizer.step()
            after_step()
    for value in network.parameters():
        torch.distributed.all_reduce(value.data)
        value.data /= ranks
    if rank == 0:
        network.eval()
        images, labels = read(arguments.data, ["test_batch.bin"])
        with torch.no_grad():
            right = sum(int((network(normalised(images[begin:begin + 500])).argmax(1).numpy() == labels[begin:begin + 500]).sum())
                        for begin in range(0, len(images), 500))
        print(right / len(images))
    torch.distributed.barrier()


def pytorch(arguments, way, seed):
    command = [arguments.python, os.path.abspath(__file__), "--torch", way, "--seed", seed, "--data", arguments.data,
               "--network", arguments.network, "--batch", arguments.batch, "--epochs", arguments.epochs]
    ranks = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **environment(rank, arguments.ranks, "127.0.0.1")})
             for rank in range(arguments.ranks)]
    said = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(f"accuracy_beside_torch.py: {way} failed")
    return 100 * float(said[0])


def halograd(arguments, keys, seed):
    arguments.set = [f"data.path={arguments.data}", f"network.name={arguments.network}", "schedule.name=cosine",
                     f"training.batch={arguments.batch * arguments.ranks}"]
    return train(arguments, [key if "." in key.split("=")[0] else f"averager.{key}" for key in keys], seed)[0]


def main():
    ways = [*HALOGRAD, *(PEER + way for way in WAYS)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--run-file", default="inputs/cifar10_resnet20.toml")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has torch")
    parser.add_argument("--data", type=os.path.abspath, required=True, help="the folder of CIFAR-10's binary files")
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--ways", help="which of the rows, with semicolons between")
    parser.add_argument("--torch", choices=WAYS, help=argparse.SUPPRESS)  # a rank of PyTorch
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch:
        torch_rank(arguments)
        return
    ways = chosen(parser, arguments.ways, ways)
    found = {way: [] for way in ways}
    for seed in range(1, arguments.seeds + 1):
        for way in ways:
            accuracy = halograd(arguments, HALOGRAD[way], seed) if way in HALOGRAD else pytorch(
                arguments, way.removeprefix(PEER), seed)
            found[way].append(accuracy)
            print(f"seed {seed}, {way}: {accuracy:.2f}", flush=True)
    print("\n| way | accuracy, % | beside the first row, points |\n|---|---|---|")
    first = statistics.mean(found[ways[0]])
    for way, accuracies in found.items():
        spread = f" ± {statistics.stdev(accuracies):.2f}" if len(accuracies) > 1 else ""
        print(f"| {way} | {statistics.mean(accuracies):.2f}{spread} | {statistics.mean(accuracies) - first:+.2f} |")


if __name__ == "__main__":
    main()
