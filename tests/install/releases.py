#!/usr/bin/env python3
"""What says the version agrees: CMakeLists.txt and CITATION.cff with the newest release of CHANGELOG.md; the recipe of Spack
with all of them; the commits that it names, and the tags that the checkout has, with their releases."""

import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROJECT = re.compile(r"project\(halograd VERSION ([0-9.]+)")
RECIPE = "spack/spack_repo/halograd/packages/halograd/package.py"
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
    commits = dict(re.findall(r'version\("([0-9.]+)", commit="([0-9a-f]{40})"\)', read(RECIPE)))
    if set(commits) != set(released):
        sys.exit(f'{RECIPE} has commits of the versions {list(commits)}, CHANGELOG.md the releases {list(released)}')
    if git("rev-parse", "--is-shallow-repository") != "false\n":
        print("SKIPPED: this is no checkout of git with its history, which the rest is about")
        sys.exit(CANNOT_RUN)
    for version, commit in commits.items():
        found = PROJECT.search(git("show", f"{commit}:CMakeLists.txt"))
        if found is None or found[1] != version:
            sys.exit(f"CMakeLists.txt of {commit}, which {RECIPE} calls {version}, has the version {found and found[1]}")
    tags = {f"v{version}": commit for version, commit in commits.items()}
    for tag in git("tag", "--list", "v*").split():
        if git("rev-parse", f"{tag}^{{commit}}").strip() != tags.get(tag):
            sys.exit(f"the tag {tag} is not of the commit {tags.get(tag)}, which {RECIPE} names")


if __name__ == "__main__":
    main()
