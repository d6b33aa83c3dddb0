#!/usr/bin/env python3
"""The scores of segmentation.py, by hand and against plain loops over pairs of voxels, and its table."""

import collections
import itertools
import math
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

import segmentation

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "segmentation.py")


def scores(truth, found):
    truth, found = np.array(truth, np.uint16), np.array(found, np.uint32)
    return (segmentation.adapted_rand_error(truth, found), *segmentation.variation_of_information(truth, found))


def entropy(values):
    counts = collections.Counter(values)
    return -sum(n / len(values) * math.log2(n / len(values)) for n in counts.values())


class Scores(unittest.TestCase):
    def check(self, truth, found, rand, split, merge):
        for value, expected in zip(scores(truth, found), (rand, split, merge)):
            self.assertAlmostEqual(value, expected, places=12)

    def test_nothing_wrong(self):
        self.check([1, 1, 2, 2, 2], [7, 7, 3, 3, 3], 0, 0, 0)

    def test_two_objects_are_one(self):
        self.check([1, 1, 2, 2], [5, 5, 5, 5], 1 - 2 * 2 / (2 + 6), 0, 1)  # pairs: 2 true, 6 found, 2 both

    def test_one_object_is_two(self):
        self.check([1, 1, 1, 1], [5, 5, 6, 6], 1 - 2 * 2 / (6 + 2), 1, 0)

    def test_unequal_parts(self):
        # 6 true pairs; 3 found, all of them right; a quarter and three quarters of one object
        self.check([4, 4, 4, 4], [1, 2, 2, 2], 1 - 2 * 3 / (6 + 3), 2 - 0.75 * math.log2(3), 0)

    def test_voxels_between_true_objects_do_not_count(self):
        self.check([0, 1, 1, 0, 2, 2, 0], [9, 9, 9, 8, 3, 3, 3], 0, 0, 0)
        self.check([0, 0], [1, 2], 0, 0, 0)

    def test_voxels_without_a_found_object(self):
        self.check([1, 1, 1, 1], [5, 5, 0, 0], 1 - 2 * 1 / (6 + 1), 1, 0)
        self.check([1, 1, 2, 2], [0, 0, 0, 0], 1, 0, 1)  # no pair was found; one object for the entropies

    def test_as_loops_over_pairs_have_them(self):
        random = np.random.default_rng(3)
        for objects in (2, 3, 6):
            truth, found = random.integers(0, objects, (2, 3, 4, 5))
            pairs = list(itertools.combinations([each for each in zip(truth.ravel(), found.ravel()) if each[0]], 2))
            true = [a[0] == b[0] for a, b in pairs]
            one = [a[1] == b[1] != 0 for a, b in pairs]
            together = sum(map(all, zip(true, one)))
            precision, recall = together / sum(one), together / sum(true)
            counted = list(zip(truth[truth > 0].tolist(), found[truth > 0].tolist()))
            true_entropy, found_entropy = (entropy([each[i] for each in counted]) for i in (0, 1))
            self.check(truth, found, 1 - 2 * precision * recall / (precision + recall),
                       entropy(counted) - true_entropy, entropy(counted) - found_entropy)


class Table(unittest.TestCase):
    """Two rods of brightness 200, 8 x 8 x 15 voxels, side by side between voxels of 50; a gap of 120 between them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.truth, self.found = (os.path.join(folder.name, name) for name in ("truth.h5", "found.h5"))
        objects = np.zeros((1, 19, 20, 21), np.uint16)
        objects[0, 2:10, 3:11, 3:18], objects[0, 11:19, 3:11, 3:18] = 1, 2
        image = np.where(objects > 0, 200, 50).astype(np.uint8)
        image[0, 10, 3:11, 3:18] = 120
        image[0, :2, 14:18, 3:15] = 200  # 96 voxels: dropped
        self.objects = objects
        with h5py.File(self.truth, "w") as file:
            for split in ("train", "test"):
                file[f"{split}/images"], file[f"{split}/objects"] = image[..., None], objects

    def run_script(self, *words):
        return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=120, check=False)

    def write_found(self, objects):
        with h5py.File(self.found, "w") as file:
            file["objects"] = objects

    def test_has_the_best_threshold_and_what_was_found(self):
        self.write_found(np.where(self.objects > 0, 4, 0).astype(np.uint32))  # both rods are one object
        result = self.run_script(self.truth, self.found)
        self.assertEqual(result.returncode, 0, result.stderr)
        title, empty, _, _, threshold, found = result.stdout.splitlines()
        self.assertRegex(title, r"^test volumes: 1, objects in them: 2, threshold: 1[2-9]\d$")
        self.assertEqual(empty, "")
        self.assertEqual(threshold, "| threshold and components | 0.000 | 0.00 | 0.00 | 2 |")
        pairs, found_pairs = 960 * 959, 1920 * 1919 / 2
        self.assertEqual(found, f"| flood filling | {1 - 2 * pairs / (pairs + found_pairs):.3f} | 0.00 | 1.00 | 1 |")

    def test_without_a_file_of_objects(self):
        result = self.run_script(self.truth)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("flood filling", result.stdout)

    def test_files_that_do_not_fit_are_named(self):
        self.write_found(self.objects[:, 1:])
        self.assertRefused(r"found\.h5: /objects is \(1, 18, 20, 21\); expected \(1, 19, 20, 21\), as .*truth\.h5 has$")
        self.write_found(self.objects.astype(np.float32))
        self.assertRefused(r"found\.h5: /objects is float32 .*; expected unsigned integers \(N, D, H, W\)$")
        os.remove(self.found)
        self.assertRefused(r"found\.h5: /objects cannot be read: ")
        with h5py.File(self.truth, "a") as file:
            del file["test/images"]
        self.assertRefused(r"truth\.h5: /test/images is None; expected \(1, 19, 20, 21, 1\)$")

    def assertRefused(self, message):  # noqa: N802: as unittest names its own
        result = self.run_script(self.truth, self.found)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertRegex(result.stderr.strip(), message)


if __name__ == "__main__":
    unittest.main()
