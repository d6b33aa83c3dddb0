#!/usr/bin/env python3
"""How long a training waits for its images when the file system is slow: share of the steps' time (/step/data_seconds).

Makes an HDF5 set of --megabytes and trains on it, each rank holding two windows of 16 blocks of 1 MiB at most and, unless a
row says otherwise, no cache:
first with reads as fast as they are, which gives the rate at which the training takes images, then with the file
throttled (data.throttle_mb_per_second) to multiples of that rate, with and without reading ahead and caches. A share is
that of the ranks' time in an epoch's steps. Nothing else may run on the machine.

    data_wait.py --program build/openmp/halograd [--ranks 2] [--megabytes 100] [--folder .]
"""

import argparse
import os
import shutil
import subprocess
import tempfile

import h5py
import numpy as np

RUN = """
name = "wait"
[training]
epochs = 3
batch = 64
threads = 1
[data]
format = "hdf5"
path = "images.h5"
cache_memory = 0
shuffle = "window"
shuffle_window = 16
[network]
name = "small"
[[network.layer]]
type = "conv"
channels = 32
kernel = 3
stride = 2
padding = 1
[[network.layer]]
type = "relu"
[[network.layer]]
type = "conv"
channels = 64
kernel = 3
padding = 1
[[network.layer]]
type = "relu"
[[network.layer]]
type = "global_avg_pool"
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 10
[optimizer]
learning_rate = 0.01
[output]
print_steps = 0
checkpoint_epochs = 0
"""
EXTENTS = (64, 64, 3)
IMAGE = int(np.prod(EXTENTS))


def make_images(path, megabytes):
    count = int(megabytes * 1e6) // IMAGE
    chance = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for split, images in (("train", count), ("test", 64)):
            shape, chunk = (images, *EXTENTS), (min(images, 64), *EXTENTS)
            rows = file.create_dataset(f"{split}/images", shape, np.uint8, chunks=chunk)
            for begin in range(0, images, 1024):
                end = min(images, begin + 1024)
                rows[begin:end] = chance.integers(0, 256, (end - begin, *EXTENTS), np.uint8)
            file[f"{split}/labels"] = np.arange(images) % 10
    return count


def train(options, folder, images, **settings):
    """Shares of waiting by epoch, and the images a second and rank of the last."""
    words = [options.mpiexec, "-n", str(options.ranks), options.program, "train", os.path.join(folder, "run.toml"),
             "--overwrite", "--set", f"output.folder={folder}"]
    for key, value in settings.items():
        words += ["--set", f"data.{key}={str(value).lower() if isinstance(value, bool) else value}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with h5py.File(os.path.join(folder, "wait", "metrics.h5"), "r") as file:
        waits, rates = file["step/data_seconds"][()], file["step/images_per_second"][()]
    steps = len(waits) // 3
    each = np.full(steps, 64.0)
    each[-1] = images % 64 or 64
    seconds = each[:, None] / options.ranks / rates.reshape(3, steps, -1)
    shares = waits.reshape(3, steps, -1).sum(axis=(1, 2)) / seconds.sum(axis=(1, 2))
    return shares, images / options.ranks / seconds[-1].sum(axis=0).max()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--folder", default=".", help="where the set, the runs and the node's disk cache lie meanwhile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="halograd_wait_", dir=options.folder) as folder:
        images = make_images(os.path.join(folder, "images.h5"), options.megabytes)
        with open(os.path.join(folder, "run.toml"), "w", encoding="utf-8") as file:
            file.write(RUN)
        shares, rate = train(options, folder, images)
        demand = rate * IMAGE / 1e6
        print(f"{options.ranks} ranks, {images} images, {images * IMAGE / 1e6:.0f} MB; not throttled: {rate:.0f} images/s, "
              f"{demand:.1f} MB/s a rank")
        disk = os.path.join(folder, "disk")
        memory = int(0.7 * images * IMAGE)
        ahead = {"prefetch": True}
        rows = [("not throttled", 0, ahead), ("no reading ahead", 1.5, {"prefetch": False, "shuffle": "full"}),
                ("reading ahead", 1.5, ahead), ("reading ahead", 0.5, ahead),
                ("reading ahead, memory for 70 %", 0.5, {**ahead, "cache_memory": memory}),
                ("reading ahead, node's disk", 0.5, {**ahead, "cache_folder": disk})]
        print(f"{'':32} {'MB/s per rank':>20} {'wait, epoch 1':>14} {'epoch 2':>8} {'epoch 3':>8}")
        for name, factor, settings in rows:
            os.makedirs(disk, exist_ok=True)
            if factor > 0:
                shares, _ = train(options, folder, images, throttle_mb_per_second=round(factor * demand, 2), **settings)
            shutil.rmtree(disk)
            limit = f"{factor * demand:.1f} ({factor} x)" if factor > 0 else "none"
            print(f"{name:32} {limit:>20} {100 * shares[0]:12.1f} % {100 * shares[1]:6.1f} % {100 * shares[2]:6.1f} %", flush=True)


if __name__ == "__main__":
    main()
