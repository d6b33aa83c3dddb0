#!/usr/bin/env python3
"""Labels that are real numbers and mean squared error: held against linear regression in closed form."""

import csv
import os
import sys

import h5py
import numpy as np

from program import SOURCE, ProgramTest, execute, main, sets

RUN = """
training = {epochs = 150, batch = 128}
network = {name = "linear", layer = [{type = "flatten"}, {type = "dense", name = "map", channels = 3}]}
loss = {name = "mean_squared_error"}
optimizer = {learning_rate = 0.2, momentum = 0.8}
averager = {name = "allreduce"}
[data]
format = "hdf5"
path = "numbers.h5"
"""
PIXELS = """
training = {epochs = 2, batch = 16}
network = {name = "filter", layer = [{type = "conv", name = "one", channels = 2, kernel = 1}]}
loss = {name = "mean_squared_error"}
optimizer = {learning_rate = 0.1}
[data]
format = "hdf5"
path = "numbers.h5"
cache_memory = 4096
"""


class Regression(ProgramTest):
    def setUp(self):
        super().setUp()
        self.chance = np.random.default_rng(5)

    def write_set(self, labels):
        """labels(images) gives the labels of a set."""
        with h5py.File(self.path("numbers.h5"), "w") as file:
            for split, count in (("train", 128), ("test", 40)):
                images = self.chance.standard_normal((count, 2, 3, 1)).astype(np.float32)
                file[f"{split}/images"] = images
                file[f"{split}/labels"] = labels(images)

    def read_set(self, split):
        with h5py.File(self.path("numbers.h5")) as file:
            return file[f"{split}/images"][()].astype(np.float64), file[f"{split}/labels"][()].astype(np.float64)

    def test_linear_regression(self):
        """All images in each step: gradient descent ends in the solution of the normal equations."""
        truth = self.chance.standard_normal((6, 3))
        self.write_set(lambda images: (images.reshape(len(images), 6) @ truth + 0.7
                                       + 0.1 * self.chance.standard_normal((len(images), 3))).astype(np.float32))
        out = self.succeed("train", self.write("run.toml", RUN), ranks=2)
        self.assertRegex(out, r"(?m)^  data .*128 \+ 40 images of 2x3x1, 3 numbers to predict$")
        images, labels = self.read_set("train")
        with_one = lambda images: np.hstack([images.reshape(len(images), 6), np.ones((len(images), 1))])
        solution = np.linalg.lstsq(with_one(images), labels, rcond=None)[0]
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            found = np.vstack([file["mean/map/weight"][()].reshape(6, 3), file["mean/map/bias"][()].reshape(1, 3)])
        np.testing.assert_allclose(found, solution, atol=1e-4)
        images, labels = self.read_set("test")
        expected = np.sqrt(np.mean((with_one(images) @ found - labels) ** 2))
        judged = self.succeed_json("evaluate", "runs/run/checkpoint.h5", ranks=3)
        self.assertAlmostEqual(judged["mean_model_error"], expected, delta=1e-5)

    def test_numbers_of_each_pixel(self):
        self.write_set(lambda images: np.concatenate([2 * images, 1 - images], axis=-1).astype(np.float64))
        out = self.succeed("train", self.write("run.toml", PIXELS), ranks=2)
        self.assertIn("2 numbers to predict per pixel", out)
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            weight, bias = (file[f"mean/one/{name}"][()].ravel().astype(np.float64) for name in ("weight", "bias"))
        images, labels = self.read_set("test")
        expected = np.sqrt(np.mean((images * weight + bias - labels) ** 2))
        judged = self.succeed_json("evaluate", "runs/run/checkpoint.h5", ranks=2)
        self.assertAlmostEqual(judged["mean_model_error"], expected, delta=1e-5)

    def test_a_table_of_runs_begins_with_the_smallest_error(self):
        self.write_set(lambda images: np.concatenate([2 * images, 1 - images], axis=-1).astype(np.float64))
        run = self.write("run.toml", PIXELS)
        for name, epochs in (("a", 1), ("b", 4)):
            self.succeed("train", run, *sets(name=name, training__epochs=epochs), ranks=2)
        table = execute([sys.executable, os.path.join(SOURCE, "jobscripts", "sweep_table.py"), "runs"], self.folder)
        self.assertEqual((table.status, table.err), (0, ""))
        with open(self.path("runs", "table.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["run"], row["metric"]) for row in rows], [("b", "error"), ("a", "error")])
        for row in rows:
            with h5py.File(self.path("runs", row["run"], "metrics.h5")) as file:
                self.assertAlmostEqual(float(row["mean_model_score"]), file["epoch/mean_model_error"][-1])
                self.assertAlmostEqual(float(row["lowest_score"]), file["epoch/test_error"][-1].min())

    def test_refusals(self):
        self.write_set(lambda images: images.reshape(len(images), 6)[:, :3])
        run = self.write("run.toml", RUN)
        self.refuse("train", run, *sets(loss__name="cross_entropy"),
                    words=["loss.name", "cross_entropy needs classes", "real numbers", "mean_squared_error"])
        self.refuse("train", self.write("two.toml", RUN.replace("channels = 3", "channels = 2")),
                    words=["map", "1x1x2", "3 numbers per label", "1x1x3 expected"])


if __name__ == "__main__":
    main()
