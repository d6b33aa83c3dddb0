#!/usr/bin/env python3
"""Whether the readers keep the trainer fed from a slow file system: the share of the steps' time spent waiting for batches.

Writes an HDF5 set, trains on it with data.throttle_mb_per_second a few times as fast as the training reads (--headroom; 1
would be the rate at which reading takes all of the time), without caches, with and without prefetch. The first step of
the run, which waits for its first block, is left out. Nothing else may run on the machine.

    feed_cost.py --program build/openmp/halograd [--network resnet20] [--batch 64] [--steps 40] [--ranks 1] [--headroom 2]
"""

import argparse
import json
import os
import subprocess
import tempfile

import h5py
import numpy as np

RUN = """
name = "fed"
[training]
epochs = 1
batch = {batch}
threads = 1
[data]
format = "hdf5"
path = "images.h5"
cache_memory = 0
shuffle = "window"
[network]
name = "{network}"
[output]
print_steps = 0
checkpoint_epochs = 0
"""


def train(options, folder, throttle, prefetch):
    """Seconds a step, and the share of them spent waiting for the batch, over all ranks."""
    words = [options.program, "train", os.path.join(folder, "run.toml"), "--overwrite", "--set", f"output.folder={folder}",
             "--set", f"data.throttle_mb_per_second={throttle:.6g}"]
    if not prefetch:
        words += ["--set", "data.prefetch=false", "--set", "data.readers=1", "--set", "data.shuffle_window=1"]
    if options.ranks > 1:
        words = [options.mpiexec, "-n", str(options.ranks), *words]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    with h5py.File(os.path.join(folder, "fed", "metrics.h5"), "r") as file:
        waiting = file["step/data_seconds"][1:]
        total = (options.batch / options.ranks / file["step/images_per_second"][1:])
    return float(total.mean()), float(waiting.sum() / total.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--network", default="resnet20")
    parser.add_argument("--headroom", type=float, default=2)
    for name, value in (("batch", 64), ("steps", 40), ("ranks", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="halograd_feed_", dir=".") as folder:
        with open(os.path.join(folder, "run.toml"), "w", encoding="utf-8") as file:
            file.write(RUN.format(batch=options.batch, network=options.network))
        shape = (32, 32, 3)
        with h5py.File(os.path.join(folder, "images.h5"), "w") as file:
            for split, count in (("train", options.batch * options.steps), ("test", options.ranks)):
                images = chance.integers(0, 256, (count, *shape), dtype=np.uint8)
                file.create_dataset(f"{split}/images", data=images, chunks=(min(32, count), *shape))
                file[f"{split}/labels"] = np.arange(count) % 10
                file[f"{split}/labels"].attrs["classes"] = 10
        alone, _ = train(options, folder, 0, True)
        needed = options.batch / options.ranks * np.prod(shape) / alone / 1e6
        throttle = options.headroom * needed
        fed, share = train(options, folder, throttle, True)
        unfed, unfed_share = train(options, folder, throttle, False)
    print(json.dumps({"megabytes_a_second_and_rank_needed": needed, "throttled_to": throttle,
                      "step_seconds_unthrottled": alone, "step_seconds": fed, "wait_share": share,
                      "step_seconds_without_reading_ahead": unfed, "wait_share_without_reading_ahead": unfed_share}))


if __name__ == "__main__":
    main()
