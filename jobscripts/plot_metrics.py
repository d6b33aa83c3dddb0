#!/usr/bin/env python3
"""Draws a run's metrics: loss, accuracy (or what else it is judged by), consensus distance and where the time went.

    plot_metrics.py RUN_FOLDER [RUN_FOLDER ...] [--output FILE] [--against epochs|seconds] [--table]

One picture per call, metrics.png in the (first) run folder unless --output says otherwise. Several runs are compared in it: loss,
scores, consensus distance and share of time spent waiting, against epochs or seconds of training and evaluation. --table prints
the runs' last figures side by side instead. Works on a run that is still going. Needs Python 3 with h5py and matplotlib.
"""

import argparse
import os
import sys

import h5py
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402: after the backend is chosen
from matplotlib.ticker import MaxNLocator  # noqa: E402

FORMAT = "halograd metrics"
FORMAT_VERSION = 1
METRICS = {  # what models are judged by: title, label of the axis, factor, the best of several values
    "accuracy": ("accuracy", "correct / %", 100, np.max),
    "iou": ("intersection over union", "IoU / %", 100, np.max),
    "error": ("error", "root mean square of the error", 1, np.min),
}
RUN_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]  # told apart by all eyes
TIMES = [  # what a step is made of, its colour
    ("compute", "compute_seconds", "#4c78a8"),
    ("update", "update_seconds", "#72b7b2"),
    ("wait for neighbours", "wait_seconds", "#e45756"),
    ("wait for data", "data_seconds", "#eeca3b"),
]


def require_whole(path):
    """Raises ValueError where a file is shorter than its superblock says: HDF5 1.14 would read on and on in one that was cut."""
    with open(path, "rb") as file:
        superblock = file.read(48)
    end = int.from_bytes(superblock[28:36], "little") if superblock[8:9] in (b"\2", b"\3") else 0
    if os.path.getsize(path) < end:
        raise ValueError(f"{path}: cannot be read: holds {os.path.getsize(path)} bytes, expected at least {end}")


class Run:
    """The columns of one metrics file, cut to the rows that all of them have (a writer may be between two of them)."""

    def __init__(self, folder):
        path = os.path.join(folder, "metrics.h5") if os.path.isdir(folder) else folder
        if not os.path.exists(path):
            raise ValueError(f"{path}: no such file; is {folder} a run folder?")
        if not h5py.is_hdf5(path):
            raise ValueError(f"{path}: not an HDF5 file")
        require_whole(path)
        try:
            with h5py.File(path, "r", libver="latest", swmr=True) as file:
                self._read(file, path)
        except (OSError, KeyError) as error:
            raise ValueError(f"{path}: cannot be read: {error}") from error
        self.folder = os.path.dirname(path) or "."
        self.name = os.path.basename(os.path.abspath(self.folder))

    def _read(self, file, path):
        found = file.attrs.get("format")
        if found != FORMAT:
            raise ValueError(f"{path}: no metrics file: its attribute 'format' is {found!r}, expected {FORMAT!r}")
        version = int(file.attrs["format_version"])
        if version > FORMAT_VERSION:
            raise ValueError(f"{path}: format_version {version}; this script reads up to {FORMAT_VERSION}")
        self.epoch = self._read_group(file["epoch"])
        self.step = self._read_group(file["step"])
        self.epochs = len(self.epoch["seconds"])
        self.metric = file.attrs.get("metric", "accuracy")
        if self.metric not in METRICS:
            raise ValueError(f"{path}: judged by {self.metric!r}, expected one of {', '.join(METRICS)}")
        _, _, factor, self.best = METRICS[self.metric]
        self.replica_scores = factor * self.epoch["test_" + self.metric]
        self.mean_scores = factor * self.epoch["mean_model_" + self.metric]
        self.ranks = int(file.attrs["ranks"])
        if self.epochs == 0:
            raise ValueError(f"{path}: no epoch is finished yet")

    @staticmethod
    def _read_group(group):
        columns = {name: dataset[()] for name, dataset in group.items()}
        rows = min(len(column) for column in columns.values())
        return {name: column[:rows] for name, column in columns.items()}

    def score_text(self, value):
        return f"{value:.4g}" if self.metric == "error" else f"{value:.2f}"

    def places(self, against):
        """Where the ends of the epochs lie on the axis."""
        return np.arange(1, self.epochs + 1) if against == "epochs" else np.cumsum(self.epoch["seconds"])

    def wait_shares(self, names=("wait_seconds", "data_seconds")):
        """Share of each epoch's steps, and of waiting between them, that ranks spent waiting, mean over ranks."""
        waited = sum(self.seconds_by_epoch(name) for name in names)
        return waited / np.maximum(sum(self.seconds_by_epoch(column) for _, column, _ in TIMES), 1e-12)

    def seconds_by_epoch(self, name):
        """Mean over the ranks of a time's sum over each epoch's steps, and of what was outside of them, in seconds."""
        ends = np.minimum(self.epoch["steps"], len(self.step[name]))
        starts = np.concatenate(([0], ends[:-1]))
        seconds = np.array([self._mean_of_sums(self.step[name][begin:end]) for begin, end in zip(starts, ends)])
        if name in self.epoch:
            seconds += np.nanmean(self.epoch[name], axis=1)
        return seconds

    @staticmethod
    def _mean_of_sums(rows):
        there = ~np.isnan(rows).all(axis=0)  # ranks that a run had before or has later have NaN
        return np.nansum(rows[:, there], axis=0).mean()


def draw_loss(axes, runs, against):
    for run, colour, label in runs:
        x = run.places(against)
        axes.plot(x, np.nanmean(run.epoch["train_loss"], axis=1), "--", color=colour, label=f"{label}training")
        axes.plot(x, run.epoch["mean_model_loss"], "-", color=colour, linewidth=2, label=f"{label}test, mean model")
    axes.set(title="Loss", ylabel="mean over images")


def draw_scores(axes, runs, against):
    for run, colour, label in runs:
        x = run.places(against)
        lines = axes.plot(x, run.replica_scores, "-", color=colour, linewidth=0.7, alpha=0.45)
        if len(runs) == 1:
            lines[0].set_label("replicas")
        last = run.score_text(run.mean_scores[-1]) + ("" if run.metric == "error" else " %")
        axes.plot(x, run.mean_scores, "-", color=colour, linewidth=2.2, label=f"{label}mean model, {last}")
    title, unit, _, _ = METRICS[runs[0][0].metric]
    axes.set(title=f"Test {title}" + ("" if len(runs) == 1 else " (thin: replicas)"), ylabel=unit)


def draw_consensus(axes, runs, against):
    drawn = False
    for run, colour, label in runs:
        distance = np.where(run.epoch["consensus_distance"] > 0, run.epoch["consensus_distance"], np.nan)
        apart = np.isfinite(distance).any()
        drawn = drawn or apart
        axes.plot(run.places(against), distance, "o-" if apart else "", color=colour, markersize=3.5,
                  label=(label.rstrip(": ") or "replicas") + ("" if apart else ": the replicas are equal"))
    if drawn:
        axes.set_yscale("log")
    else:
        axes.text(0.5, 0.5, "the replicas are equal", transform=axes.transAxes, ha="center", color="0.4")
    axes.set(title="Consensus distance", ylabel=r"root mean square of $\|x_i-\bar{x}\|$")


def draw_times(axes, run):
    x = np.arange(1, run.epochs + 1)
    bottom = np.zeros(run.epochs)
    for name, column, colour in TIMES:
        seconds = run.seconds_by_epoch(column)
        axes.bar(x, seconds, 0.75, bottom=bottom, color=colour, label=name)
        bottom += seconds
    axes.bar(x, np.maximum(run.epoch["seconds"] - bottom, 0), 0.75, bottom=bottom, color="0.85", label="evaluation and other")
    axes.set(title="Time per epoch", xlabel="epoch", ylabel="time / s, mean of ranks")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the legend above the bars
    axes.legend(ncol=3, loc="upper center", fontsize=7, columnspacing=1.2)


def draw_waits(axes, runs, against):
    for run, colour, label in runs:
        axes.plot(run.places(against), 100 * run.wait_shares(), "o-", color=colour, markersize=3.5,
                  label=label.rstrip(": "))
    axes.set(title="Waiting for neighbours and data", ylabel="share of the steps' time / %")
    axes.set_ylim(bottom=0)
    axes.legend()


def table(runs):
    """The runs' last figures, a line a run."""
    rows = [("run", "ranks", "epochs", "steps", "train loss", "test loss",
             runs[0].metric + ("" if runs[0].metric == "error" else " %"), "best", "replicas", "consensus", "wait %",
             "data %", "seconds")]
    for run in runs:
        scores, replicas = run.mean_scores, run.replica_scores[-1]
        rows.append((run.name, str(run.ranks), str(run.epochs), str(run.epoch["steps"][-1]),
                     f"{np.nanmean(run.epoch['train_loss'][-1]):.4f}", f"{run.epoch['mean_model_loss'][-1]:.4f}",
                     run.score_text(scores[-1]), run.score_text(run.best(scores)),
                     f"{run.score_text(np.nanmin(replicas))}-{run.score_text(np.nanmax(replicas))}",
                     f"{run.epoch['consensus_distance'][-1]:.3g}",
                     f"{100 * run.wait_shares(['wait_seconds']).mean():.1f}",
                     f"{100 * run.wait_shares(['data_seconds']).mean():.1f}", f"{run.epoch['seconds'].sum():.1f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def draw(runs, output, against):
    plt.rcParams.update({
        "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True,
        "legend.frameon": False, "legend.fontsize": 8,
    })
    figure, ((loss, scores), (consensus, times)) = plt.subplots(2, 2, figsize=(9.6, 6.8), constrained_layout=True)
    compared = [(run, RUN_COLOURS[i % len(RUN_COLOURS)], f"{run.name}: " if len(runs) > 1 else "")
                for i, run in enumerate(runs)]
    draw_loss(loss, compared, against)
    draw_scores(scores, compared, against)
    draw_consensus(consensus, compared, against)
    drawn_against = [loss, scores, consensus]
    if len(runs) == 1:
        draw_times(times, runs[0])
    else:
        draw_waits(times, compared, against)
        drawn_against.append(times)
    for axes in drawn_against:
        axes.set_xlabel("epoch" if against == "epochs" else "time / s")
    if against == "epochs":
        for axes in (loss, scores, consensus, times):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    loss.legend()
    scores.legend(loc="best")
    if len(runs) > 1:
        consensus.legend()
    titles = [f"{run.name} ({run.ranks} rank{'s' if run.ranks > 1 else ''})" for run in runs]
    figure.suptitle(",   ".join(titles), fontsize=11)
    partial = output + ".partial"
    figure.savefig(partial, dpi=160, format="png")
    os.replace(partial, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN_FOLDER", help="a folder with metrics.h5, or such a file")
    parser.add_argument("--output", help="the picture's path (default: metrics.png in the first run folder)")
    parser.add_argument("--against", choices=["epochs", "seconds"], default="epochs", help="what the lines are drawn against")
    parser.add_argument("--table", action="store_true", help="print the runs' last figures side by side, draw nothing")
    arguments = parser.parse_args()
    try:
        runs = [Run(folder) for folder in arguments.runs]
        if len({run.name for run in runs}) < len(runs):
            for run in runs:
                run.name = run.folder
        if len({run.metric for run in runs}) > 1:
            raise ValueError("the runs are judged by different metrics: "
                             + ", ".join(f"{run.name} by {run.metric}" for run in runs))
        if arguments.table:
            print(table(runs))
            return
        output = arguments.output or os.path.join(runs[0].folder, "metrics.png")
        draw(runs, output, arguments.against)
    except (ValueError, OSError) as error:
        sys.exit(f"plot_metrics: {error}")
    print(output)


if __name__ == "__main__":
    main()
