#!/usr/bin/env python3
"""Training images/s of this program beside PyTorch, network by network, on the CPU of one machine with nothing else running.

One step is forward, cross-entropy (softmax of an image; in ffn3d binary, of each voxel), backward and SGD with momentum on one random batch. Product and peer take
turns, each in a process of its own, for --rounds rounds; figures are medians over the rounds, PyTorch's the better of
its two memory layouts, and of its versions where --python names several interpreters. PyTorch's process keeps the memory that it has freed (MALLOC_*_THRESHOLD_ of glibc): it is then
up to 30 % faster than as it comes. Peak memory is the process' largest resident set (PyTorch's with its libraries: what a user's job
has to ask for), PyTorch's of the layout that is faster.

    compare_pytorch.py --program build/openmp/halograd [--threads 1,2] [--networks lenet5,...] [--rounds 3] [--seconds 3]

Needs torch, or names a Python that has it, or several: --python /path/to/venv/bin/python3,/usr/bin/python3.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

BATCHES = {"lenet5": 64, "vgg_small": 64, "resnet20": 128, "resnet18": 32, "ffn3d": 8}
INPUTS = {"lenet5": (1, 28, 28), "ffn3d": (1, 16, 16, 16)}  # of the others (3, 32, 32)
LAYOUTS = {"contiguous_format": "NCHW", "channels_last": "NHWC"}
# Without these, glibc gives each large tensor back to the system and takes it anew, page by page.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "34359738368", "MALLOC_MMAP_THRESHOLD_": "34359738368"}


def networks(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self, channels, filters, stride):
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(),
                nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
            self.shortcut = nn.Identity() if stride == 1 and channels == filters else nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

        def forward(self, x):
            return functional.relu(self.main(x) + self.shortcut(x))

    class ResidualVolumes(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.main = nn.Sequential(nn.ReLU(), nn.Conv3d(channels, channels, 3, padding=1),
                                      nn.ReLU(), nn.Conv3d(channels, channels, 3, padding=1))

        def forward(self, x):
            return self.main(x) + x

    def ffn3d():
        return nn.Sequential(
            nn.Conv3d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv3d(32, 32, 3, padding=1),
            *(ResidualVolumes(32) for _ in range(4)), nn.ReLU(), nn.Conv3d(32, 1, 1))

    def lenet5():
        return nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))

    def vgg_small():
        layers, channels = [], 3
        for filters in (64, 128, 256):
            for _ in range(2):
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10))

    def resnet(widths, blocks):
        layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
        channels = widths[0]
        for stage, filters in enumerate(widths):
            for block in range(blocks):
                layers.append(Residual(channels, filters, 2 if stage > 0 and block == 0 else 1))
                channels = filters
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))

    return {"lenet5": lenet5, "vgg_small": vgg_small, "resnet20": lambda: resnet((16, 32, 64), 3),
            "resnet18": lambda: resnet((64, 128, 256, 512), 2), "ffn3d": ffn3d}


def measure_pytorch(name, batch, threads, layout, seconds):
    """In a process of its own: one JSON object."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    shape = INPUTS.get(name, (3, 32, 32))
    volumes = len(shape) == 4
    memory_format = getattr(torch, "channels_last_3d" if volumes and layout == "channels_last" else layout)
    network = networks(torch)[name]().to(memory_format=memory_format)
    images = torch.randn(batch, *shape).contiguous(memory_format=memory_format)
    functional = torch.nn.functional
    loss = functional.binary_cross_entropy_with_logits if volumes else functional.cross_entropy
    labels = torch.randint(0, 2, (batch, *shape)).float() if volumes else torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def step():
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss(network(images), labels).backward()
        optimizer.step()
        return time.perf_counter() - begin

    for _ in range(3):
        step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(step())
    print(json.dumps({
        "version": torch.__version__, "images_per_second": batch / statistics.median(times),
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def run_json(command, threads, more=None):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(more or {})}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, timeout=600).stdout)


def measure_halograd(program, name, batch, threads, seconds):
    result = run_json([program, "benchmark", "--json", "--network", name, "--batch", str(batch), "--threads",
                       str(threads), "--seconds", str(seconds)], threads)
    return result["networks"][0]


def compare(arguments, name, threads):
    """The row of one network: medians over the rounds."""
    batch = BATCHES[name]
    peers = [(python, layout) for python in arguments.python.split(",") for layout in LAYOUTS]
    ours, theirs = [], {peer: [] for peer in peers}
    for _ in range(arguments.rounds):
        ours.append(measure_halograd(arguments.program, name, batch, threads, arguments.seconds))
        for python, layout in peers:
            command = [python, os.path.abspath(__file__), "--measure", name, "--seconds", str(arguments.seconds),
                       "--threads", str(threads), "--layout", layout]
            theirs[python, layout].append(run_json(command, threads, KEEPS_MEMORY))
    rate = lambda results: statistics.median(result["images_per_second"] for result in results)
    memory = lambda results: max(result["peak_memory_bytes"] for result in results) / 1e6
    best = max(peers, key=lambda peer: rate(theirs[peer]))
    if ours[0]["parameters"] != theirs[best][0]["parameters"]:
        sys.exit(f"{name}: {ours[0]['parameters']} parameters here, {theirs[best][0]['parameters']} in PyTorch")
    version = lambda peer: theirs[peer][0]["version"].split("+")[0]
    return {"network": name, "batch": batch, "threads": threads, "halograd": rate(ours),
            "pytorch": {f"{version(peer)} {LAYOUTS[peer[1]]}": rate(theirs[peer]) for peer in peers},
            "ratio": rate(ours) / rate(theirs[best]), "halograd_memory": memory(ours),
            "pytorch_memory": memory(theirs[best])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the halograd to measure")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, or several, with commas")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--networks", default=",".join(BATCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of measured steps a process")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # the peer's own process
    parser.add_argument("--layout", choices=LAYOUTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure_pytorch(arguments.measure, BATCHES[arguments.measure], int(arguments.threads), arguments.layout,
                        arguments.seconds)
        return
    if not arguments.program:
        parser.error("--program is needed: the halograd to measure")
    rows = []
    for threads in map(int, arguments.threads.split(",")):
        for name in arguments.networks.split(","):
            if name not in BATCHES:
                parser.error(f"--networks: there is no {name} here ({', '.join(BATCHES)})")
            rows.append(compare(arguments, name, threads))
            if arguments.json:
                continue
            row = rows[-1]
            peers = row["pytorch"]
            if len(rows) == 1:
                print("images/s, PyTorch by version and layout\n| network | batch | threads | halograd | "
                      f"{' | '.join(peers)} | ratio | memory MB | PyTorch's |\n" + "|---" * (len(peers) + 7) + "|")
            print(f"| {name} | {row['batch']} | {threads} | {row['halograd']:.1f} | "
                  f"{' | '.join(f'{rate:.1f}' for rate in peers.values())} | {row['ratio']:.2f} | "
                  f"{row['halograd_memory']:.0f} | {row['pytorch_memory']:.0f} |", flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
