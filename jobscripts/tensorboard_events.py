#!/usr/bin/env python3
"""Writes a run's metrics as event files, which TensorBoard shows.

    tensorboard_events.py RUN_FOLDER [RUN_FOLDER ...] [--output FOLDER]
    tensorboard --logdir FOLDER

Each run becomes a folder of its name below --output (default: tensorboard beside the first run folder); what an earlier call
has written there is replaced. Means over the ranks each step; the mean model, the replicas' range and the consensus distance
each epoch, at the step where it ended. Works on a run that is still going. Needs Python 3 with h5py and tensorboardX.
"""

import argparse
import glob
import os
import sys

import h5py
import numpy as np

FORMAT = "halograd metrics"
FORMAT_VERSION = 1
STEP_SUMS = ("images_per_second", "bytes_sent", "skipped")  # over the ranks; the mean of the other columns


def read_group(group):
    """Its columns, cut to the rows that all of them have: a writer may be between two of them."""
    columns = {name: dataset[()] for name, dataset in group.items()}
    rows = min(len(column) for column in columns.values())
    return {name: column[:rows] for name, column in columns.items()}


def scalars(path):
    """(tag, step, value) of a metrics file."""
    with h5py.File(path, "r", libver="latest", swmr=True) as file:
        if file.attrs.get("format") != FORMAT:
            raise ValueError(f"{path}: no metrics file: its attribute 'format' is {file.attrs.get('format')!r}, "
                             f"expected {FORMAT!r}")
        if int(file.attrs["format_version"]) > FORMAT_VERSION:
            raise ValueError(f"{path}: format_version {file.attrs['format_version']}; this script reads up to {FORMAT_VERSION}")
        step, epoch = read_group(file["step"]), read_group(file["epoch"])
    for name, column in sorted(step.items()):
        # ranks that were not there yet have NaN
        values = np.nansum(column, axis=1) if name in STEP_SUMS else np.nanmean(column, axis=1)
        for at, value in enumerate(values):
            yield f"step/{name}", at + 1, value
    ends = epoch.pop("steps")
    for name, column in sorted(epoch.items()):
        lines = {name: column} if column.ndim == 1 else {
            f"{name}/mean": np.nanmean(column, axis=1), f"{name}/lowest": np.nanmin(column, axis=1),
            f"{name}/highest": np.nanmax(column, axis=1)}
        for line, values in lines.items():
            for at, value in zip(ends, values):
                yield f"epoch/{line}", int(at), value


def write_events(run, folder, writer_of):
    path = os.path.join(run, "metrics.h5") if os.path.isdir(run) else run
    if not os.path.exists(path):
        raise ValueError(f"{path}: no such file; is {run} a run folder?")
    try:
        found = list(scalars(path))
    except (OSError, KeyError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    for old in glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*")):
        os.remove(old)
    with writer_of(folder) as writer:
        for tag, step, value in found:
            writer.add_scalar(tag, float(value), step)
    return len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN_FOLDER", help="a folder with metrics.h5, or such a file")
    parser.add_argument("--output", metavar="FOLDER", help="where a folder a run is made")
    arguments = parser.parse_args()
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        sys.exit("tensorboard_events: needs the Python package tensorboardX, which is not installed: pip install tensorboardX")
    folders = [os.path.abspath(run if os.path.isdir(run) else os.path.dirname(run) or ".") for run in arguments.runs]
    output = arguments.output or os.path.join(os.path.dirname(folders[0]), "tensorboard")
    if len({os.path.basename(folder) for folder in folders}) < len(folders):
        sys.exit("tensorboard_events: two runs have the same name: give each its own --output")
    try:
        for run, folder in zip(arguments.runs, folders):
            target = os.path.join(output, os.path.basename(folder))
            print(f"{target}: {write_events(run, target, SummaryWriter)} values")
    except (ValueError, OSError) as error:
        sys.exit(f"tensorboard_events: {error}")


if __name__ == "__main__":
    main()
