#!/usr/bin/env python3
"""compare_pytorch.py runs, on cores: the same networks on both sides, the strongest peer, what fails left out."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

from program import CORES_HAVE_BF16, PROGRAM, SOURCE, TIMEOUT, main

SCRIPT = os.path.join(SOURCE, "tests", "performance", "compare_pytorch.py")
QUICK = ("--threads", "1", "--rounds", "1", "--seconds", "0.01")


def compare(*words):
    return subprocess.run([sys.executable, SCRIPT, "--program", PROGRAM, *QUICK, *words], capture_output=True,
                          text=True, timeout=TIMEOUT, check=False)


class ComparePytorch(unittest.TestCase):
    def compare(self, *words):
        result = compare(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    # The script ends with status 1 where numbers of parameters differ: here those of three networks, of the others in
    # torch_step_long_test.py.
    def test_networks_are_the_same(self):
        row, = json.loads(self.compare("--networks", "ffn3d", "--batches", "1", "--variants", "eager", "--json").stdout)
        self.assertEqual((row["network"], row["batch"], row["precision"], len(row["pytorch"])), ("ffn3d", 1, "fp32", 2))
        best = max(row["pytorch"].values())
        self.assertEqual(row["pytorch"][row["strongest"]], best)
        self.assertAlmostEqual(row["ratio"], row["halograd"] / best)
        self.assertGreater(row["pytorch_memory"], 0)

    def test_a_column_for_each_layout(self):
        title, names, lines, row = self.compare("--networks", "vgg_small", "--batches", "2").stdout.splitlines()
        self.assertEqual(title, "images/s, PyTorch by version and layout")
        columns = [word.strip().split(" ")[-1] for word in names.split("|")[1:-1]]
        self.assertEqual(columns, ["network", "batch", "threads", "halograd", "NCHW", "NHWC", "ratio", "MB",
                                   "PyTorch's"])
        self.assertEqual(lines, "|---" * 9 + "|")
        self.assertRegex(row, r"^\| vgg_small \| 2 \| 1 (\| [0-9.]+ ){6}\|$")

    def test_what_fails_is_left_out(self):
        # a graph needs a device, and halograd computes in bf16 on some cores alone
        result = self.compare("--networks", "lenet5", "--batches", "2", "--variants", "eager,graph", "--precisions",
                              "fp32,bf16")
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines()[3:]]
        *rows, _, title, _, _, best = rows
        self.assertEqual(title, [])
        self.assertEqual(best[:3], ["lenet5", "2", "1"])
        self.assertAlmostEqual(float(best[5]), float(best[3].split()[0]) / float(best[4].split()[0]), delta=0.01)
        self.assertEqual([row[1:3] for row in rows], [["2", "fp32"], ["2", "bf16"]])
        for row in rows:
            self.assertIn(row[6].split(" ")[1:], (["NCHW", "eager"], ["NHWC", "eager"]))
            self.assertGreater(float(row[5]), 0)
            left_out = row[2] == "bf16" and not CORES_HAVE_BF16
            self.assertEqual((row[4] == "-", row[7] == "-"), (left_out, left_out))
        self.assertEqual(result.stderr.count("graph: left out: graphs and tf32 need a device"), 4, result.stderr)
        self.assertEqual(result.stderr.count('halograd: left out: halograd: training.precision = "bf16"'),
                         0 if CORES_HAVE_BF16 else 1)

    def test_refusals(self):
        for words, message in ((("--networks", "lenet"), "there is no lenet here"),
                               (("--variants", "fast"), "there is no fast here"),
                               (("--python", "/bin/false"), "nothing could be compared")):
            result = compare("--networks", "lenet5", *words)
            self.assertGreater(result.returncode, 0)
            self.assertIn(message, result.stderr)
        self.assertIn("\n| lenet5 | 64 | ", result.stdout)  # the batch that the network has by default


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("SKIPPED: no torch")
        sys.exit(77)
    main()
