#!/usr/bin/env python3
"""The versions that halograd ran with (versions.csv), and what spack/ and docs/building.md claim of them.

    versions.py                      holds both against versions.csv, and the recipe's release against CMakeLists.txt
    versions.py --row BUILD [ARGS]   prints the row for a build folder whose tests passed when ctest was given ARGS
    versions.py --table              prints the table of docs/building.md

tests/run.sh ends by printing its row. An empty cell is a version that was not used or not recorded. A run that only compiled
begins its last cell with that word, and allows no claim.

The recipe may name a range of versions only if both ends ran, or lie between two versions that ran and have the same first
number, and if something ran for each first number in the range (compilers, whose first number changes every year, excepted).
An end is as precise as it is written: 5.2 is any 5.2.x. What the recipe says for +cuda is held against the runs on CUDA devices.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys

from spack_names import ENVIRONMENTS, RECIPE, environment_specs, parts, run_recipe, stand_ins

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
TABLE = os.path.join(HERE, "versions.csv")
PAGE = os.path.join(SOURCE, "docs", "building.md")
ABOUT = ("system", "date", "revision", "ran")  # the columns that are no versions
NAMED = ("compiler", "mpi", "device")  # those whose cells begin with the name of the package
# Dependencies of which the recipe names no version, since any serves; of an MPI and of compilers it names those that ran.
ANY_VERSION = {"c", "cxx", "mpi", "git", "lapack", "zlib-api", "libjpeg-turbo", "py-h5py", "py-matplotlib"}
COMPILERS = {"gcc", "clang"}
# What ctest was told, in words.
SELECTIONS = {"": "every test", "-LE long": "every test but the long ones", "-L unit|mpi -LE long": "unit and MPI tests",
              "-R mpich5": "on four hosts: every averager, ends of runs, dead ranks"}


def read_table():
    with open(TABLE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(version):
    return [int(digits) for digits in re.findall(r"\d+", version)]


def versions_that_ran(rows, device=""):
    """{package: [version as a list of numbers, ...]}, on such a device or on any."""
    found = {}
    for row in rows:
        if row["ran"].startswith("compiled") or not row["device"].lower().startswith(device):
            continue
        for column, cell in row.items():
            if cell and column not in ABOUT:
                package, version = cell.lower().split() if column in NAMED else (column, cell)
                found.setdefault(package, []).append(number(version))
    return found


def fault(name, span, versions):
    """What is wrong with a package's range as Spack writes it, where these versions ran; empty if nothing is."""
    first, last = span.split(":") if ":" in span else (span, span)
    if not first or not last:
        return f"has no {'upper' if first else 'lower'} end"
    for end in (number(first), number(last)):
        ran = any(version[:len(end)] == end for version in versions)
        beside = [version for version in versions if version[0] == end[0]]
        if not ran and not (beside and min(beside) < end < max(beside)):
            return f"ends at {'.'.join(map(str, end))}, which did not run"
        if len(end) == 1:
            return f"ends at {end[0]}: all of it, whatever will come"
    for major in range(number(first)[0], number(last)[0] + 1):
        if name not in COMPILERS and not any(version[0] == major for version in versions):
            return f"holds {major}, none of which ran"
    return ""


def claims():
    """[(place, package, range, device)] of the recipe and the environments, with an empty range where they name none."""
    found, _ = run_recipe(RECIPE, stand_ins())
    specs = [("package.py", spec, "cuda" if "+cuda" in when else "")
             for kind in ("depends_on", "requires") for *words, when in found[kind] for spec in words]
    specs += [(*spec, "") for spec in environment_specs()]
    return [(place, name, span, device) for place, spec, device in specs for name, span, _ in parts(spec) if name not in ("", "halograd")]


def check_claims(claimed, ran):
    """One line for each range that is wider than what ran, and for each package of which any version is claimed. `ran`: by
    device."""
    for place, name, span, device in claimed:
        wrong = span and fault(name, span, ran[device].get(name, []))
        if wrong:
            yield f"{place}: {name}@{span} {wrong}{f' on {device}' if device else ''} (tests/install/versions.csv)"
    bounded = {(name, device) for _, name, span, device in claimed if span}
    needed = {(name, device) for _, name, _, device in claimed if name not in ANY_VERSION} | {("kokkos", "cuda")}
    for name, device in sorted(needed - bounded):
        yield f"package.py: {name} has no range of versions{f' for +{device}' if device else ''}"


def wider(span):
    """Ranges that hold a little more than this one."""
    first, last = span.split(":") if ":" in span else (span, span)
    *front, small = number(first)
    *back, great = number(last)
    text = lambda numbers: ".".join(map(str, numbers))
    yield f"{first}:"
    yield f":{last}"
    yield f"{first}:{back[0] + 1}.0"
    yield f"{first}:{text([*back, great + 1])}"
    yield f"{text([*front, small - 1] if small else [front[0] - 1, 99])}:{last}"


def page_table(rows):
    """The lines of the table in docs/building.md."""
    heads = ("system", "compiler", "Kokkos", "MPI", "HDF5", "what ran, and when")
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        system = f"{row['system']}, {row['device']}" if row["device"] else row["system"]
        yield f"| {system} | {row['compiler']} | {row['kokkos']} | {row['mpi']} | {row['hdf5']} | {row['ran']} ({row['date']}) |"


def check_page(rows):
    with open(PAGE, encoding="utf-8") as file:
        if "\n".join(page_table(rows)) not in file.read():
            yield "docs/building.md: its table is not what tests/install/versions.py --table prints"


def output(*command):
    return subprocess.run(command, encoding="utf-8", check=True, stdout=subprocess.PIPE).stdout.strip()


def row_of(build, arguments):
    """The row for a build: CMake wrote down what it found, and the program says which MPI it runs on."""
    with open(os.path.join(build, "versions.json"), encoding="utf-8") as file:
        row = json.load(file)
    said = output(os.path.join(build, "halograd"), "--version")
    mpi = re.search(r"(MPICH|Open MPI)\D+([0-9.]+)", said)
    row["mpi"] = f"{mpi.group(1).lower().replace(' ', '')} {mpi.group(2)}" if mpi else ""
    row["revision"] = re.search(r"\((\S+?)\)", said).group(1)
    row["date"] = output("git", "-C", SOURCE, "log", "-1", "--format=%cs")
    with open("/etc/os-release", encoding="utf-8") as file:
        release = dict(line.strip().split("=", 1) for line in file if "=" in line)
    row["system"] = f"Debian {release.get('VERSION_ID', 'sid')}".replace('"', "")
    if release["ID"] != "debian":
        row["system"] = release["PRETTY_NAME"].strip('"')
    row["ran"] = SELECTIONS.get(arguments, f"ctest {arguments}") + skipped(build)
    return {name: row[name] for name in read_table()[0]}


def skipped(build):
    """Which kind of tests the machine could not have, a name of a folder of tests/ each."""
    with open(os.path.join(build, "tests.log"), encoding="utf-8") as file:
        kinds = sorted(set(re.findall(r"^\s*\d+ - (network|slurm)\..* \(Skipped\)", file.read(), re.MULTILINE)))
    return f" (no {', no '.join(kinds)})" if kinds else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", nargs=argparse.REMAINDER, metavar="BUILD")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    rows = read_table()
    if options.row:
        row = row_of(options.row[0], " ".join(options.row[1:]))
        csv.DictWriter(sys.stdout, row, lineterminator="\n").writerow(row)
        return
    if options.table:
        print("\n".join(page_table(rows)))
        return
    ran, claimed = {device: versions_that_ran(rows, device) for device in ("", "cuda")}, claims()
    wrong = [*check_claims(claimed, ran), *check_page(rows)]
    if wrong:
        sys.exit("\n".join(wrong))
    # the check itself: whoever widens a range is found
    ranges = sorted({(name, span, device) for _, name, span, device in claimed if span})
    for name, span, device in ranges:
        for wide in wider(span):
            if not fault(name, wide, ran[device][name]):
                sys.exit(f"{name}@{wide} was not found to be wider than what ran")
    print(f"{len(ranges)} ranges of versions ran, in {len(rows)} runs")


if __name__ == "__main__":
    main()
