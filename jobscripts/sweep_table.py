#!/usr/bin/env python3
"""One table of all runs in a folder: what each ended with, best first.

    sweep_table.py FOLDER

Reads FOLDER/*/metrics.h5, prints the table and writes it to FOLDER/table.txt and FOLDER/table.csv. A run without a finished
epoch is listed with dashes, an unreadable one is named, and the exit status is then 1. Needs Python 3 with h5py.
"""

import csv
import glob
import io
import os
import sys

import h5py
import numpy as np

COLUMNS = [  # key, heading, format
    ("run", "run", "{}"),
    ("ranks", "ranks", "{:d}"),
    ("epochs", "epochs", "{:d}"),
    ("metric", "judged by", "{}"),
    ("mean_model_score", "mean model", "{:.4g}"),
    ("lowest_score", "lowest", "{:.4g}"),
    ("highest_score", "highest", "{:.4g}"),
    ("mean_model_loss", "loss", "{:.4f}"),
    ("consensus_distance", "consensus", "{:.3g}"),
    ("images_per_second", "images/s", "{:.0f}"),
    ("wait_share", "wait %", "{:.1f}"),
    ("megabytes_sent", "MB per rank and step", "{:.3g}"),
    ("seconds", "seconds", "{:.1f}"),
]


def read_run(path):
    """What a run ended with; shares, and scores that are none of errors, in percent. Only its name and size before its first
    epoch's end."""
    with h5py.File(path, "r", libver="latest", swmr=True) as file:
        if file.attrs.get("format") != "halograd metrics":
            raise ValueError("no metrics file of halograd")
        epoch = {name: dataset[()] for name, dataset in file["epoch"].items()}
        step = {name: dataset[()] for name, dataset in file["step"].items()}
        row = {"run": os.path.basename(os.path.dirname(path)), "ranks": int(file.attrs["ranks"]),
               "metric": file.attrs.get("metric", "accuracy")}
    row["epochs"] = epochs = min(len(column) for column in epoch.values())
    if epochs == 0:
        return row
    metric = row["metric"]
    unit = 1 if metric == "error" else 100
    scores = unit * epoch[f"test_{metric}"][epochs - 1]
    busy = sum(step[name].sum() for name in ("compute_seconds", "update_seconds", "wait_seconds", "data_seconds"))
    row.update(
        mean_model_score=unit * epoch[f"mean_model_{metric}"][epochs - 1], lowest_score=scores.min(),
        highest_score=scores.max(), mean_model_loss=epoch["mean_model_loss"][epochs - 1],
        consensus_distance=epoch["consensus_distance"][epochs - 1],
        images_per_second=np.mean(step["images_per_second"].sum(axis=1)),
        wait_share=100 * step["wait_seconds"].sum() / busy, megabytes_sent=step["bytes_sent"].mean() / 1e6,
        seconds=epoch["seconds"][:epochs].sum())
    return row


def best_first(row):
    score = row.get("mean_model_score", np.nan)
    return row["metric"], np.isnan(score), score if row["metric"] == "error" else -score, row["run"]


def text_of(rows):
    cells = [[heading for _, heading, _ in COLUMNS]]
    cells += [[form.format(row[key]) if key in row else "-" for key, _, form in COLUMNS] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS))]
    lines = []
    for line in cells:
        first, *others = (cell.ljust(width) if at == 0 else cell.rjust(width)
                          for at, (cell, width) in enumerate(zip(line, widths)))
        lines.append("  ".join([first, *others]))
    return "\n".join(lines) + "\n"


def csv_of(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, [key for key, _, _ in COLUMNS], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write(path, text):
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = sys.argv[1]
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*", "metrics.h5")))
    if not paths:
        sys.exit(f"sweep_table: {folder}: no run with a metrics.h5 in it")
    rows, unreadable = [], []
    for path in paths:
        try:
            rows.append(read_run(path))
        except (OSError, KeyError, ValueError) as error:
            unreadable.append(f"sweep_table: {path}: cannot be read: {error}")
    rows.sort(key=best_first)
    try:
        write(os.path.join(folder, "table.txt"), text_of(rows))
        write(os.path.join(folder, "table.csv"), csv_of(rows))
    except OSError as error:
        sys.exit(f"sweep_table: {error}")
    print(text_of(rows), end="")
    if unreadable:
        sys.exit("\n".join(unreadable))


if __name__ == "__main__":
    main()
