#!/usr/bin/env python3
"""ReFrame loads site/reframe, and what its tests measure has references that are ratios: without a unit of time or size, and
bounded on the side that is worse. Nothing is run."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "site", "reframe")
CANNOT_RUN = 77


def main():
    if shutil.which("reframe") is None:
        print("SKIPPED: there is no reframe in the PATH (pip install reframe-hpc)")
        sys.exit(CANNOT_RUN)
    with tempfile.TemporaryDirectory(prefix="halograd_reframe_") as folder:
        words = ["reframe", "-C", os.path.join(FOLDER, "settings.py"), "-c", os.path.join(FOLDER, "halograd_test.py"),
                 "--system=site:here", "--describe"]
        tests = json.loads(subprocess.run(words, cwd=folder, encoding="utf-8", check=True, stdout=subprocess.PIPE).stdout)
    if [test["name"] for test in tests] != ["Digits", "WeakScaling"]:
        sys.exit(f"site/reframe has other tests: {[test['name'] for test in tests]}")
    for test in tests:
        references = test["reference"].get("*", {})
        if sorted(references) != sorted(test["perf_variables"]):
            sys.exit(f"{test['name']}: measures {test['perf_variables']}, but has references for {sorted(references)}")
        for name, (value, lower, upper, unit) in references.items():
            if unit != "1" or not 0 < value <= 1 or (lower is None) == (upper is None):
                sys.exit(f"{test['name']}: the reference of {name} is no ratio with a bound: {references[name]}")
    print(f"{len(tests)} tests are loaded by ReFrame")


if __name__ == "__main__":
    main()
