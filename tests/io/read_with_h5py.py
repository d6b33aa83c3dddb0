#!/usr/bin/env python3
"""Opens a checkpoint and a metrics file (also one that is being written) with h5py, as users do, and checks what
docs/file-formats.md says of them.

    read_with_h5py.py [--checkpoint FILE] [--metrics FILE] [--ranks R] [--steps S] [--epochs E]
"""

import argparse
import sys
import zlib

import h5py
import numpy as np

CHECKPOINT_ATTRIBUTES = {
    "format": str, "format_version": np.integer, "step": np.integer, "epoch": np.integer, "step_in_epoch": np.integer,
    "ranks": np.integer, "network": str, "averager": str, "topology": str, "config": str, "versions": str, "input": str,
    "optimizer_steps": np.integer,
}
AVERAGER_STATE = {"/replica/averager/weight": "<f8", "/replica/averager/period": "<i8"}
STEP = {
    "loss": "1", "learning_rate": "1", "images_per_second": "1/s", "wait_seconds": "s", "compute_seconds": "s",
    "update_seconds": "s", "data_seconds": "s", "progress_seconds": "s", "bytes_sent": "B", "skipped": "1",
    "averaging_period": "1", "samples": "1", "rank": "1",
}
EPOCH_OF_RANK = {"train_loss": "1", "test_loss": "1", "test_accuracy": "1", "images": "1", "evaluation_seconds": "s",
                 "wait_seconds": "s"}
EPOCH = {"mean_model_loss": "1", "mean_model_accuracy": "1", "consensus_distance": "1", "seconds": "s",
         "steps": "1"}
EDGE = {
    "epoch": "1", "from": "1", "to": "1", "halos": "1", "skipped": "1", "left_out": "1", "bytes": "B",
    "delay_seconds": "s", "least_delay_seconds": "s", "wait_seconds": "s", "staleness": "1",
}


def require(condition, message):
    if not condition:
        sys.exit(f"read_with_h5py: {message}")


def check_checkpoint(path, ranks):
    with h5py.File(path) as file:
        for name, kind in CHECKPOINT_ATTRIBUTES.items():
            require(name in file.attrs, f"{path}: no attribute {name}")
            require(isinstance(file.attrs[name], kind), f"{path}: attribute {name} is {type(file.attrs[name])}")
        require(file.attrs["format"] == "halograd checkpoint", f"{path}: format {file.attrs['format']}")
        require(file.attrs["ranks"] == ranks, f"{path}: {file.attrs['ranks']} ranks, expected {ranks}")
        parameters = file["replica/parameters"]
        require(parameters.shape[0] == ranks, f"{path}: /replica/parameters has {parameters.shape[0]} rows")
        datasets = [item for item in file["replica"].values() if isinstance(item, h5py.Dataset)]
        datasets += list(file.get("replica/averager", {}).values())
        for dataset in datasets:
            kind = AVERAGER_STATE.get(dataset.name, "<f8" if dataset.name == "/replica/epoch_sums" else "<f4")
            require(dataset.dtype == np.dtype(kind), f"{path}: {dataset.name} is {dataset.dtype}")
            for row, expected in zip(dataset[:], dataset.attrs["crc32"]):
                require(zlib.crc32(row.tobytes()) == expected, f"{path}: {dataset.name}: a checksum is wrong")
        flat = {"parameter": parameters[:].astype(np.float64).mean(axis=0)}
        if "replica/statistics" in file:
            flat["statistic"] = file["replica/statistics"][:].astype(np.float64).mean(axis=0)
        for layer in file["mean"].values():
            for tensor in layer.values():
                begin = tensor.attrs["offset"]
                expected = flat[tensor.attrs["kind"]][begin:begin + tensor.size].reshape(tensor.shape)
                require(np.allclose(tensor[()], expected, rtol=1e-6, atol=1e-7), f"{path}: {tensor.name} is no mean")
                require(zlib.crc32(tensor[()].tobytes()) == tensor.attrs["crc32"][0], f"{path}: {tensor.name}: checksum")


def check_metrics(path, ranks, steps, epochs):
    with h5py.File(path, libver="latest", swmr=True) as file:
        require(file.attrs["format"] == "halograd metrics", f"{path}: format {file.attrs['format']}")
        require(file.attrs["format_version"] == 1, f"{path}: format_version {file.attrs['format_version']}")
        require(file.attrs["ranks"] == ranks, f"{path}: {file.attrs['ranks']} ranks, expected {ranks}")
        expected = {f"step/{name}": (unit, (steps, ranks)) for name, unit in STEP.items()}
        expected |= {f"epoch/{name}": (unit, (epochs, ranks)) for name, unit in EPOCH_OF_RANK.items()}
        expected |= {f"epoch/{name}": (unit, (epochs,)) for name, unit in EPOCH.items()}
        rows = file["edge/epoch"].shape
        expected |= {f"edge/{name}": (unit, (*rows, 8) if name == "staleness" else rows) for name, unit in EDGE.items()}
        for name, (unit, shape) in expected.items():
            dataset = file[name]
            require(dataset.shape == shape, f"{path}: /{name} is {dataset.shape}, expected {shape}")
            require(dataset.attrs["unit"] == unit, f"{path}: /{name} has unit {dataset.attrs['unit']}")
            require(dataset.attrs["description"], f"{path}: /{name} has no description")
            integer = name.startswith("edge/") and not name.endswith("_seconds")
            counts = ("step/bytes_sent", "step/skipped", "step/averaging_period", "step/samples", "step/rank", "epoch/steps",
                      "epoch/images")
            kind = "<i8" if integer or name in counts else "<f8"
            require(dataset.dtype == np.dtype(kind), f"{path}: /{name} is {dataset.dtype}")
            dataset[()]
        found = {f"{group}/{name}" for group in ("step", "epoch", "edge") for name in file[group]}
        require(found == set(expected), f"{path}: also holds {sorted(found - set(expected))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint")
    parser.add_argument("--metrics")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.checkpoint:
        check_checkpoint(arguments.checkpoint, arguments.ranks)
    if arguments.metrics:
        check_metrics(arguments.metrics, arguments.ranks, arguments.steps, arguments.epochs)


if __name__ == "__main__":
    main()
