#!/usr/bin/env python3
"""What says the version agrees: CMakeLists.txt and CITATION.cff with the newest release of CHANGELOG.md, and the tag of each
release, where the checkout has tags, with that release."""

import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROJECT = re.compile(r"project\(halograd VERSION ([0-9.]+)")
CANNOT_RUN = 77


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


def git(*words):
    """What git says of this checkout; empty where there is no git, or this is none."""
    try:
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", SOURCE, *words], capture_output=True, encoding="utf-8",
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def main():
    headings = re.findall(r"^## (.*)$", read("CHANGELOG.md"), re.MULTILINE)
    releases = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading) for heading in headings]
    wrong = [heading for heading, release in zip(headings, releases) if not release and (heading, headings[0]) != ("[Unreleased]",) * 2]
    if wrong or not any(releases):
        sys.exit(f"CHANGELOG.md has the sections {headings}, expected [Unreleased] at most once, first, and [X.Y.Z] - YYYY-MM-DD")
    released = {release[1]: release[2] for release in releases if release}
    newest = next(iter(released))
    for what, found, expected in (
            ("the order of its releases", list(released),
             sorted(released, key=lambda version: [int(part) for part in version.split(".")], reverse=True)),
            ("the version in CMakeLists.txt", PROJECT.search(read("CMakeLists.txt"))[1], newest),
            ("the version in CITATION.cff", re.search(r"^version: (\S+)$", read("CITATION.cff"), re.MULTILINE)[1], newest),
            ("date-released in CITATION.cff", re.search(r"^date-released: (\S+)$", read("CITATION.cff"), re.MULTILINE)[1],
             released[newest])):
        if found != expected:
            sys.exit(f"{what} is {found}, expected as CHANGELOG.md has it: {expected}")
    tags = git("tag", "--list", "v*").split()
    if not tags:
        print("SKIPPED: this is no checkout of git with tags of releases, which the rest is about")
        sys.exit(CANNOT_RUN)
    if set(tags) != {f"v{version}" for version in released}:
        sys.exit(f"git has the tags {tags}, CHANGELOG.md the releases {list(released)}")
    for version in released:
        tagged = PROJECT.search(git("show", f"v{version}:CMakeLists.txt"))
        if tagged is None or tagged[1] != version:
            sys.exit(f"CMakeLists.txt at the tag v{version} has the version {tagged and tagged[1]}")


if __name__ == "__main__":
    main()
