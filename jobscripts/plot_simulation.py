#!/usr/bin/env python3
"""Draws what halograd simulate --csv wrote: spectral gap, steps to consensus, step time and efficiency against ranks.

    plot_simulation.py TABLE.csv [--output FILE]

The picture lies beside the table unless --output says otherwise. Needs Python 3 with matplotlib.
"""

import argparse
import csv
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402: after the backend is chosen

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]  # told apart by all eyes
OTHERS = {"gossip": ("gossip, one peer", "#000000", "-."), "ring_allreduce": ("ring all-reduce", "#000000", "-"),
          "tree_allreduce": ("tree all-reduce", "#000000", "--")}
PANELS = [  # column, factor, title, unit, logarithmic
    ("spectral_gap", 1, "Spectral gap", "$1-|\\lambda_2|$", True),
    ("steps_to_consensus", 1, "Steps to consensus, mixing alone", "steps", True),
    ("step_seconds", 1e3, "Predicted step", "time / ms", True),
    ("efficiency", 100, "Predicted efficiency", "computing / step / %", False),
]


def read_lines(path):
    """{(averager, topology): rows in order of ranks}."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    wanted = {"ranks", "averager", "topology", *(column for column, *_ in PANELS)}
    if not rows or not wanted <= set(rows[0]):
        raise ValueError(f"{path}: no table of halograd simulate --csv")
    lines = {}
    for row in sorted(rows, key=lambda each: int(each["ranks"])):
        lines.setdefault((row["averager"], row["topology"]), []).append(row)
    return lines


def draw(lines, output):
    plt.rcParams.update({
        "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": "0.9", "axes.axisbelow": True, "legend.frameon": False,
    })
    figure, all_axes = plt.subplots(2, 2, figsize=(9.6, 7.2), constrained_layout=True)
    topologies = [topology for averager, topology in lines if averager not in OTHERS]
    for axes, (column, factor, title, unit, logarithmic) in zip(all_axes.flat, PANELS):
        for (averager, topology), rows in lines.items():
            points = [(int(row["ranks"]), factor * float(row[column])) for row in rows if row[column] != ""]
            if not points or (averager.endswith("allreduce") and column in ("spectral_gap", "steps_to_consensus")):
                continue
            if averager not in OTHERS:
                label, colour, style = topology, COLOURS[topologies.index(topology) % len(COLOURS)], "o-"
            else:
                label, colour, style = OTHERS[averager]
            axes.plot(*zip(*points), style, color=colour, label=label, markersize=3.5)
        axes.set(title=title, xlabel="ranks", ylabel=unit)
        axes.set_xscale("log", base=2)
        if logarithmic:
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 105)
    handles, labels = all_axes[1][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center" if matplotlib.__version_info__ >= (3, 7) else "lower center",
                  ncol=5, bbox_to_anchor=None if matplotlib.__version_info__ >= (3, 7) else (0.5, -0.09))
    partial = output + ".partial"
    figure.savefig(partial, dpi=110, format="png", bbox_inches="tight")
    os.replace(partial, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="TABLE.csv")
    parser.add_argument("--output", help="the picture's path (default: beside the table)")
    arguments = parser.parse_args()
    output = arguments.output or os.path.splitext(arguments.table)[0] + ".png"
    try:
        draw(read_lines(arguments.table), output)
    except (ValueError, OSError) as error:
        sys.exit(f"plot_simulation: {error}")
    print(output)


if __name__ == "__main__":
    main()
