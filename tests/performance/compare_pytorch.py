#!/usr/bin/env python3
"""Training images/s of this program beside PyTorch, network by network, on one machine with nothing else running.

One step is forward, cross-entropy (softmax of an image; in unet2d and ffn3d binary, of each pixel; in cosmoflow the squared error), backward and SGD with momentum on one random batch. Product and peer take
turns, each in a process of its own, for --rounds rounds; figures are medians over the rounds.

On cores (--device cpu) PyTorch's is the better of its two memory layouts, and of its versions where --python names several
interpreters. PyTorch's process keeps the memory that it has freed (MALLOC_*_THRESHOLD_ of glibc): it is then
up to 30 % faster than as it comes. Peak memory is the process' largest resident set (PyTorch's with its libraries: what a user's job
has to ask for), PyTorch's of the layout that is faster.

On a device (--device cuda, PyTorch's name for AMD's as well), and on cores with --variants, PyTorch's is the strongest of
layouts x variants, and the table says which: eager; graph, the whole step as one CUDA graph; compile, torch.compile of forward
and backward; compile-graph, both; reduce-overhead and max-autotune, modes of torch.compile. From the second round on only
those within 10 % of the strongest are measured again. A step ends when the device has done it; PyTorch's batch lies on the
device. Memory is what is taken on the device: of PyTorch what its allocator has reserved at most. What fails is left out, with
a line on stderr. With several --precisions a second table holds each side's best against the other's.

    compare_pytorch.py --program build/openmp/halograd [--threads 1,2] [--networks lenet5,...] [--rounds 3] [--seconds 3]
    compare_pytorch.py --program build/cuda/halograd --device cuda [--batches 64,256,1024] [--precisions fp32,tf32,bf16]

Needs torch, or names a Python that has it, or several: --python /path/to/venv/bin/python3,/usr/bin/python3.
"""

import argparse
import contextlib
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import time

from torch_networks import CLASSES, INPUTS, NUMBERS, OUTPUT_PER_PIXEL, networks

BATCHES = {"lenet5": 64, "vgg_small": 64, "resnet20": 128, "resnet18": 32, "ffn3d": 8, "resnet50": 8, "mobilenet_v2": 16,
           "unet2d": 8, "cosmoflow": 1}  # on cores
LAYOUTS = {"contiguous_format": "NCHW", "channels_last": "NHWC"}
# Mode of torch.compile, and whether the step is captured as a whole.
VARIANTS = {"eager": (None, False), "graph": (None, True), "compile": ("default", False),
            "compile-graph": ("default", True), "reduce-overhead": ("reduce-overhead", False),
            "max-autotune": ("max-autotune", False)}
DEFAULTS = {
    "cpu": {"threads": "1,2", "networks": "lenet5,vgg_small,resnet20,resnet18,ffn3d", "precisions": "fp32",
            "variants": "eager"},
    "cuda": {"threads": "1", "networks": "lenet5,vgg_small,resnet20,resnet18,resnet50", "precisions": "fp32,tf32,bf16",
             "variants": "eager,graph,compile,compile-graph,max-autotune", "batches": "64,256,1024"}}
ACCELERATORS = ("Cuda", "HIP")  # what the program calls them
# Without these, glibc gives each large tensor back to the system and takes it anew, page by page.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "34359738368", "MALLOC_MMAP_THRESHOLD_": "34359738368"}


def allow_tf32(torch, allowed):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    if allowed and hasattr(torch.backends.cudnn, "fp32_precision"):
        torch.backends.cudnn.fp32_precision = "tf32"  # what torch.compile asks for convolutions of its own


def capture(torch, train, optimizer, steps):
    """The whole step as one graph, made as PyTorch's documentation says; a function that launches it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(steps):
            train()
    torch.cuda.current_stream().wait_stream(stream)
    optimizer.zero_grad(set_to_none=True)  # gradients are then made in the graph's own memory
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    return graph.replay


def measure_pytorch(arguments):
    """In a process of its own: one JSON object."""
    name, batch, device = arguments.measure, int(arguments.batches), arguments.device
    mode, captured = VARIANTS[arguments.variants]
    on_cores = device == "cpu"
    if on_cores and (captured or arguments.precisions == "tf32"):
        sys.exit("graphs and tf32 need a device")
    import torch
    torch.set_num_threads(int(arguments.threads))
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    allow_tf32(torch, arguments.precisions == "tf32")
    shape = INPUTS.get(name, (3, 32, 32))
    per_pixel = name in OUTPUT_PER_PIXEL
    layout = "channels_last_3d" if len(shape) == 4 and arguments.layout == "channels_last" else arguments.layout
    memory_format = getattr(torch, layout)
    network = networks(torch)[name]().to(device=device, memory_format=memory_format)
    images = torch.randn(batch, *shape).to(device).contiguous(memory_format=memory_format)
    functional = torch.nn.functional
    if per_pixel:
        loss, labels = functional.binary_cross_entropy_with_logits, torch.randint(0, 2, (batch, *shape)).float()
    elif name in NUMBERS:
        loss, labels = functional.mse_loss, torch.randn(batch, NUMBERS[name])
    else:
        loss, labels = functional.cross_entropy, torch.randint(0, CLASSES.get(name, 10), (batch,))
    labels = labels.to(device)
    fused = {"fused": True} if not on_cores and "fused" in inspect.signature(torch.optim.SGD).parameters else {}
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, **fused)
    rounding = lambda: (torch.autocast(device, dtype=torch.bfloat16, cache_enabled=not captured)
                        if arguments.precisions == "bf16" else contextlib.nullcontext())
    forward = lambda inputs, targets: loss(network(inputs), targets)
    if mode:
        forward = torch.compile(forward, mode=mode)

    def train():
        optimizer.zero_grad()
        with rounding():
            value = forward(images, labels)
        value.backward()
        optimizer.step()

    warm_up = 3 if on_cores else 10
    run = capture(torch, train, optimizer, warm_up) if captured else train

    def step():
        begin = time.perf_counter()
        run()
        if not on_cores:
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    for _ in range(warm_up):
        step()
    times, end = [], time.perf_counter() + arguments.seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(step())
    print(json.dumps({
        "version": torch.__version__, "images_per_second": batch / statistics.median(times),
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
        "memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if on_cores else
                        torch.cuda.max_memory_reserved()}))


def run_json(command, what, threads, limit, more=None):
    """The JSON object that a command prints; None, with a line on stderr, where it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(more or {})}
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=limit)
        if result.returncode == 0:
            return json.loads(result.stdout.splitlines()[-1])
        reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"not done after {limit:.0f} s"
    print(f"compare_pytorch.py: {what}: left out: {reason[:300]}", file=sys.stderr, flush=True)
    return None


class Comparison:
    """One row: a network at a batch, in a precision, with a number of threads."""

    def __init__(self, arguments, name, batch, precision, threads):
        self.arguments, self.name, self.batch, self.precision, self.threads = arguments, name, batch, precision, threads
        self.what = f"{name}, batch {batch}, {precision}"
        self.ours = []
        self.theirs = {(python, layout, variant): [] for python in arguments.python.split(",") for layout in LAYOUTS
                       for variant in arguments.variants.split(",")}

    def measure_halograd(self):
        result = run_json(
            [self.arguments.program, "benchmark", "--json", "--network", self.name, "--batch", str(self.batch),
             "--precision", self.precision, "--threads", str(self.threads), "--seconds", str(self.arguments.seconds)],
            f"{self.what}: halograd", self.threads, self.arguments.limit)
        if result is None:
            return None
        if (result["device"] in ACCELERATORS) != (self.arguments.device == "cuda"):
            sys.exit(f"{self.arguments.program} computes on {result['device']}, not with --device {self.arguments.device}")
        figures = result["networks"][0]
        return {**figures, "memory_bytes": figures.get("device_memory_bytes", figures["peak_memory_bytes"])}

    def measure_peer(self, peer):
        python, layout, variant = peer
        command = [python, os.path.abspath(__file__), "--measure", self.name, "--batches", str(self.batch),
                   "--precisions", self.precision, "--threads", str(self.threads), "--layout", layout, "--variants",
                   variant, "--device", self.arguments.device, "--seconds", str(self.arguments.seconds)]
        return run_json(command, f"{self.what}: {python} {LAYOUTS[layout]} {variant}", self.threads,
                        self.arguments.limit, KEEPS_MEMORY)

    def measure(self):
        """Its row: medians over the rounds."""
        peers = list(self.theirs)
        for index in range(self.arguments.rounds):
            if index == 0 or self.ours:
                ours = self.measure_halograd()
                self.ours += [ours] if ours else []
            for peer in peers:
                result = self.measure_peer(peer)
                self.theirs[peer] = [*self.theirs[peer], result] if result else []
            peers = [peer for peer in peers if self.theirs[peer]]
            if peers and not self.arguments.each_variant:
                strongest = max(rate(self.theirs[peer]) for peer in peers)
                peers = [peer for peer in peers if rate(self.theirs[peer]) > 0.9 * strongest]
        measured = [peer for peer, results in self.theirs.items() if results]
        return self.row(max(measured, key=lambda peer: rate(self.theirs[peer])) if measured else None)

    def label(self, peer):
        version = self.theirs[peer][0]["version"].split("+")[0]
        return f"{version} {LAYOUTS[peer[1]]}" + ("" if self.arguments.each_variant else f" {peer[2]}")

    def row(self, best):
        row = {"network": self.name, "batch": self.batch, "precision": self.precision, "threads": self.threads,
               "halograd": None, "pytorch": {self.label(peer): rate(results) for peer, results in self.theirs.items()
                                             if results},
               "strongest": None, "ratio": None, "halograd_memory": None, "pytorch_memory": None}
        if self.ours:
            row.update(halograd=rate(self.ours), halograd_memory=memory(self.ours))
        if best:
            row.update(strongest=self.label(best), pytorch_memory=memory(self.theirs[best]))
        if self.ours and best:
            ours, theirs = self.ours[0]["parameters"], self.theirs[best][0]["parameters"]
            if ours != theirs:
                sys.exit(f"{self.name}: {ours} parameters here, {theirs} in PyTorch")
            row["ratio"] = row["halograd"] / row["pytorch"][row["strongest"]]
        return row


def rate(results):
    return statistics.median(result["images_per_second"] for result in results)


def memory(results):
    return max(result["memory_bytes"] for result in results) / 1e6


def print_row(row, columns):
    """`columns`: the peers that have one each; none where the strongest has the only one."""
    shown = lambda value, form: "-" if value is None else format(value, form)
    peers = row["pytorch"]
    cells = [row["network"], row["batch"], *([] if columns else [row["precision"]]), row["threads"],
             shown(row["halograd"], ".1f")]
    if columns:
        cells += [shown(peers.get(peer), ".1f") for peer in columns]
    else:
        cells += [shown(peers.get(row["strongest"]), ".1f"), row["strongest"] or "-"]
    cells += [shown(row["ratio"], ".2f"), shown(row["halograd_memory"], ".0f"), shown(row["pytorch_memory"], ".0f")]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_header(columns):
    titles = (["network", "batch", "threads", "halograd", *columns] if columns else
              ["network", "batch", "precision", "threads", "halograd", "PyTorch", "which"])
    titles += ["ratio", "memory MB", "PyTorch's"]
    peers = "by version and layout" if columns else "in its strongest version, layout and variant"
    print(f"images/s, PyTorch {peers}\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|")


def print_best(rows):
    """With several precisions: each side's best, network by network."""
    print("\nimages/s, each side in its best precision\n| network | batch | threads | halograd | PyTorch | ratio |")
    print("|---" * 6 + "|")
    for key in dict.fromkeys((row["network"], row["batch"], row["threads"]) for row in rows):
        same = [row for row in rows if (row["network"], row["batch"], row["threads"]) == key]
        ours = max(((row["halograd"], row["precision"]) for row in same if row["halograd"]), default=None)
        theirs = max(((rate, row["precision"]) for row in same for rate in row["pytorch"].values()), default=None)
        if not ours or not theirs:  # left out, with a line on stderr
            continue
        cells = [*key, f"{ours[0]:.1f} {ours[1]}", f"{theirs[0]:.1f} {theirs[1]}", f"{ours[0] / theirs[0]:.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the halograd to measure")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, or several, with commas")
    parser.add_argument("--device", choices=DEFAULTS, default="cpu")
    parser.add_argument("--threads")
    parser.add_argument("--networks")
    parser.add_argument("--batches", help="by default 64,256,1024 on a device, the network's usual one on cores")
    parser.add_argument("--precisions", help="of fp32, tf32, bf16; by default all on a device, fp32 on cores")
    parser.add_argument("--variants", help=f"of {', '.join(VARIANTS)}; by default eager on cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of measured steps a process")
    parser.add_argument("--limit", type=float, default=600, help="seconds a process may take, with compilation")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # the peer's own process
    parser.add_argument("--layout", choices=LAYOUTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.each_variant = arguments.device == "cpu" and arguments.variants is None  # has a column
    for name, value in DEFAULTS[arguments.device].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    for words, known in (("networks", BATCHES), ("variants", VARIANTS), ("precisions", ("fp32", "tf32", "bf16"))):
        for word in getattr(arguments, words).split(","):
            if word not in known:
                parser.error(f"--{words}: there is no {word} here ({', '.join(known)})")
    if arguments.measure:
        arguments.batches = arguments.batches or BATCHES[arguments.measure]
    elif not arguments.program:
        parser.error("--program is needed: the halograd to measure")
    return arguments


def main():
    arguments = parse()
    if arguments.measure:
        measure_pytorch(arguments)
        return
    rows, columns = [], []
    for threads in map(int, arguments.threads.split(",")):
        for name in arguments.networks.split(","):
            for batch in arguments.batches.split(",") if arguments.batches else [BATCHES[name]]:
                for precision in arguments.precisions.split(","):
                    rows.append(Comparison(arguments, name, int(batch), precision, threads).measure())
                    if arguments.json:
                        continue
                    if len(rows) == 1:
                        columns = list(rows[0]["pytorch"]) if arguments.each_variant else []
                        print_header(columns)
                    print_row(rows[-1], columns)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    elif "," in arguments.precisions:
        print_best(rows)
    if all(row["ratio"] is None for row in rows):
        sys.exit("nothing could be compared")


if __name__ == "__main__":
    main()
