#!/usr/bin/env python3
"""inputs/make_neurites.py: what its file holds, that objects are connected and apart, and that a threshold merges them."""

import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs")
sys.path.append(INPUTS)
from make_neurites import SMALLEST_OBJECT, by_size, components  # noqa: E402


def make(*words):
    return subprocess.run([sys.executable, os.path.join(INPUTS, "make_neurites.py"), *words], capture_output=True, text=True,
                          timeout=300, check=False)


def flood(mask):
    """Components, voxel by voxel."""
    labels, count = np.zeros(mask.shape, int), 0
    for start in map(tuple, np.argwhere(mask)):
        if labels[start]:
            continue
        count += 1
        labels[start] = count
        stack = [start]
        while stack:
            at = stack.pop()
            for axis in range(mask.ndim):
                for step in (-1, 1):
                    to = at[:axis] + (at[axis] + step,) + at[axis + 1:]
                    if 0 <= to[axis] < mask.shape[axis] and mask[to] and not labels[to]:
                        labels[to] = count
                        stack.append(to)
    return labels


class Components(unittest.TestCase):
    def test_are_those_of_a_flood(self):
        random = np.random.default_rng(1)
        for shape in ((50,), (17, 23), (9, 10, 11)):
            for share in (0.0, 0.2, 0.35, 0.5, 0.7, 1.0):
                mask = random.random(shape) < share
                np.testing.assert_array_equal(components(mask), flood(mask))

    def test_of_a_spiral(self):
        mask = np.zeros((21, 21), bool)  # one long way: many rounds
        for ring in range(0, 10, 2):
            mask[ring, ring:21 - ring] = mask[ring:21 - ring, 20 - ring] = mask[20 - ring, ring:21 - ring] = True
            mask[ring + 2:21 - ring, ring] = True
            mask[ring + 2, ring:ring + 3] = True
        np.testing.assert_array_equal(components(mask), flood(mask))
        self.assertEqual(components(mask).max(), 1)

    def test_by_size(self):
        labels = np.array([0, 3, 3, 1, 2, 2, 2, 0, 5, 5])
        np.testing.assert_array_equal(by_size(labels, 2), [0, 2, 2, 0, 1, 1, 1, 0, 3, 3])


class Neurites(unittest.TestCase):
    SIZE = (32, 40, 48)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = cls.make_file("neurites.h5")

    @classmethod
    def make_file(cls, name, *words):
        path = os.path.join(cls.folder.name, name)
        result = make(path, "--size", "x".join(map(str, cls.SIZE)), *words)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return path

    def read(self, path, name):
        with h5py.File(path) as file:
            return file[name][()]

    def test_layout(self):
        with h5py.File(self.file) as file:
            for split, count in (("train", 2), ("test", 1)):
                images, objects = file[f"{split}/images"], file[f"{split}/objects"]
                self.assertEqual((images.shape, images.dtype), ((count, *self.SIZE, 1), np.uint8))
                self.assertEqual((objects.shape, objects.dtype), ((count, *self.SIZE), np.uint32))
            self.assertEqual((file.attrs["made_by"], file.attrs["seed"]), ("inputs/make_neurites.py", 1))

    def test_objects_fill_about_half_and_are_connected_and_apart(self):
        for objects in (*self.read(self.file, "train/objects"), *self.read(self.file, "test/objects")):
            self.assertTrue(0.3 <= np.mean(objects > 0) <= 0.6, np.mean(objects > 0))
            sizes = np.bincount(objects.ravel())[1:]
            self.assertGreater(len(sizes), 3)
            self.assertTrue((np.diff(sizes) <= 0).all() and sizes[-1] >= SMALLEST_OBJECT, sizes)
            # as many components as objects, and no component of two: each object is one, and none touches another
            parts = flood(objects > 0)
            self.assertEqual(parts.max(), len(sizes))
            self.assertEqual(len(np.unique(parts * 65536 + objects)), len(sizes) + 1)

    def test_neurites_are_brighter_than_membranes_and_what_lies_between(self):
        image, objects = self.read(self.file, "test/images")[0, ..., 0], self.read(self.file, "test/objects")[0]
        self.assertGreater(image[objects > 0].mean(), image[objects == 0].mean() + 40)

    def test_a_threshold_merges_objects(self):
        image, objects = self.read(self.file, "test/images")[0, ..., 0], self.read(self.file, "test/objects")[0]
        bright = components(image >= np.median(image[objects > 0]))
        largest = bright == np.bincount(bright[bright > 0]).argmax()
        inside = np.bincount(objects[largest & (objects > 0)], minlength=objects.max() + 1)
        self.assertGreater(np.count_nonzero(inside > 50), 2)

    def test_a_second_run_writes_the_same_bytes(self):
        with open(self.file, "rb") as first, open(self.make_file("again.h5"), "rb") as second:
            self.assertTrue(first.read() == second.read())

    def test_volumes_do_not_depend_on_how_many_there_are(self):
        fewer, other = self.make_file("fewer.h5", "--train", "1"), self.make_file("other.h5", "--train", "1", "--seed", "2")
        for name in ("train/images", "test/images", "test/objects"):
            both = zip(self.read(self.file, name), self.read(fewer, name))
            self.assertTrue(all(np.array_equal(*each) for each in both), name)
        self.assertFalse(np.array_equal(self.read(self.file, "test/objects"), self.read(other, "test/objects")))

    def test_options_that_cannot_be(self):
        for words, message in ((["--size", "96x96"], "'96x96': expected one extent or DEPTHxHEIGHTxWIDTH"),
                               (["--size", "8"], "each at least 16"), (["--tubes", "-1"], "--tubes -1: expected at least 0"),
                               (["--noise", "nan"], "--noise nan: expected at least 0")):
            result = make(os.path.join(self.folder.name, "bad.h5"), *words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "bad.h5")))
        result = make(os.path.join(self.folder.name, "nowhere", "bad.h5"))
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertIn("bad.h5: ", result.stderr)


if __name__ == "__main__":
    unittest.main()
