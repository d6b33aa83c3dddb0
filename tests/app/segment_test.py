#!/usr/bin/env python3
"""halograd on labels a pixel: inputs/ffn3d.toml in short, from training to evaluation."""

import os
import sys

import h5py
import numpy as np

from program import INPUTS, SOURCE, ProgramTest, execute, main, sets

SHORT = [os.path.join(INPUTS, "ffn3d.toml"),
         *sets(training__epochs=2, training__batch=4, data__synthetic_train=24, data__synthetic_test=6,
               data__synthetic_shape="[8, 8, 8, 1]")]


class Segmentation(ProgramTest):
    def test_is_judged_by_intersection_over_union(self):
        out = self.succeed("train", *SHORT, ranks=2)
        self.assertRegex(out, r"(?m)^  data +synthetic: 24 \+ 6 images of 8x8x8x1, 2 classes per pixel$")
        self.assertRegex(out, r"(?m)^  loss +binary_cross_entropy, judged by iou$")
        self.assertRegex(out, r"(?m)^ +epoch +train loss +mean loss +replicas IoU % +mean IoU %")
        self.assertRegex(out, r"(?m)^  mean model +IoU \d+\.\d\d % of the test set$")
        with h5py.File(self.path("runs/ffn3d/metrics.h5")) as file:
            self.assertEqual(file.attrs["metric"], "iou")
            self.assertNotIn("test_accuracy", file["epoch"])
            iou, replicas = file["epoch/mean_model_iou"][()], file["epoch/test_iou"][()]
            loss = file["epoch/train_loss"][()]
        self.assertEqual((iou.shape, replicas.shape), ((2,), (2, 2)))
        self.assertTrue(((0 <= replicas) & (replicas <= 1)).all())
        self.assertLess(loss[1].mean(), loss[0].mean())
        with h5py.File(self.path("runs/ffn3d/checkpoint.h5")) as file:
            self.assertEqual(file["mean/module1_conv1/weight"].shape, (3, 3, 3, 32, 32))

        found = self.succeed_json("evaluate", "runs/ffn3d/checkpoint.h5", ranks=2)
        self.assertAlmostEqual(found["mean_model_iou"], iou[1], delta=1e-9)
        self.assertRegex(self.succeed("evaluate", "runs/ffn3d/checkpoint.h5", ranks=1), r"mean model: IoU \d+\.\d\d % of 6")
        self.assertIn("/epoch/mean_model_iou", self.succeed("inspect", "runs/ffn3d/metrics.h5"))
        self.assertIn("  iou ", self.succeed("watch", "runs/ffn3d", "--once"))

        plot = [sys.executable, os.path.join(SOURCE, "jobscripts", "plot_metrics.py"), "runs/ffn3d"]
        drawing = {"MPLCONFIGDIR": self.folder}
        self.assertEqual(execute(plot, self.folder, drawing).out, "runs/ffn3d/metrics.png\n")
        table = execute([*plot, "--table"], self.folder, drawing).out
        self.assertIn("iou %", table)
        self.assertIn(f"{100 * iou[1]:.2f}", table)
        with h5py.File(self.path("runs/ffn3d/checkpoint.h5")) as file:
            self.assertEqual((file.attrs["metric"], file.attrs["mean_model_iou"]), ("iou", iou[1]))

        resumed = self.succeed_json("train", *SHORT, "--set", "training.epochs=3", "--resume", ranks=2)
        self.assertEqual(resumed["epochs"], 3)
        self.assertIn("mean_model_iou", resumed)

    def test_images_of_a_file_with_a_label_a_pixel(self):
        """Two weights, so that numpy can say what the mean model finds."""
        chance = np.random.default_rng(2)
        with h5py.File(self.path("pixels.h5"), "w") as file:
            for split, count in (("train", 48), ("test", 10)):
                images = chance.random((count, 9, 7, 1), dtype=np.float32)
                file[f"{split}/images"] = images
                file[f"{split}/labels"] = (images[..., 0] > 0.6).astype(np.uint8)
                file[f"{split}/labels"].attrs["classes"] = 2
            labels = file["test/labels"][()] == 1
        run = self.write("run.toml", """
training = {epochs = 4, batch = 8}
network = {name = "threshold", layer = [{type = "conv", name = "one", channels = 1, kernel = 1}]}
loss = {name = "binary_cross_entropy"}
optimizer = {learning_rate = 0.5}
[data]
format = "hdf5"
path = "pixels.h5"
cache_memory = 4096
""")
        out = self.succeed("train", run, ranks=2)
        self.assertRegex(out, r"(?m)^  data .*48 \+ 10 images of 9x7x1, 2 classes per pixel$")
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            weight, bias = (float(file[f"mean/one/{name}"][()].ravel()[0]) for name in ("weight", "bias"))
        with h5py.File(self.path("pixels.h5")) as file:
            found = weight * file["test/images"][..., 0].astype(np.float64) + bias > 0
        self.assertTrue(found.any())
        expected = (found & labels).sum() / (found | labels).sum()
        self.assertAlmostEqual(self.succeed_json("evaluate", "runs/run/checkpoint.h5", ranks=3)["mean_model_iou"], expected,
                               delta=2 / labels.sum())

    def test_fields_around_objects(self):
        """Trained on fields of volumes, on ranks that cut the same ones; evaluated on other fields, and used on whole volumes."""
        chance = np.random.default_rng(3)
        with h5py.File(self.path("cells.h5"), "w") as file:
            for split, count in (("train", 2), ("test", 1)):
                objects = np.zeros((count, 24, 20, 20), np.uint16)
                for number in range(1, 40):
                    low = chance.integers(0, (18, 14, 14))
                    high = low + chance.integers(2, 9, 3)
                    objects[:, low[0]:high[0], low[1]:high[1], low[2]:high[2]] = number
                noise = chance.integers(0, 60, objects.shape)
                file[f"{split}/images"] = np.where(objects > 0, 120 + noise, noise).astype(np.uint8)[..., None]
                file[f"{split}/objects"] = objects
        words = [os.path.join(INPUTS, "ffn3d.toml"),
                 *sets(training__epochs=1, training__batch=4, data__format="objects", data__path=self.path("cells.h5"),
                       data__objects_field=8, data__objects_train=24, data__objects_test=6)]
        out = self.succeed("train", *words, ranks=2)
        self.assertRegex(out, r"(?m)^  data .*cells.h5: 24 \+ 6 images of 8x8x8x1, 2 classes per pixel$")
        found = [self.succeed_json("evaluate", "runs/ffn3d/checkpoint.h5", *words, ranks=ranks)["mean_model_iou"]
                 for words, ranks in (([], 1), ([], 3), (["--data", "cells.h5"], 2))]
        self.assertEqual(found, [found[0]] * 3)
        self.succeed("predict", "runs/ffn3d/checkpoint.h5", "cells.h5", "--output", "scores.h5", ranks=2)
        with h5py.File(self.path("scores.h5")) as file:
            self.assertEqual(file["scores"].shape, (1, 24, 20, 20, 1))
        self.refuse("train", *words, "--set", "data.objects_field=[8, 40, 8]",
                    words=["cells.h5:/train/objects", "fields of 8x40x8x1", "volumes of 24x20x20x1"])

    def test_a_loss_that_does_not_fit_is_refused(self):
        self.refuse("train", *SHORT, "--set", "loss.name=cross_entropy", "--set", "data.synthetic_labels=image",
                    words=["the last layer, outputs, has outputs of shape 8x8x8x10", "1x1x1x10 expected"])
        self.refuse("train", *SHORT, "--set", "data.synthetic_labels=image",
                    words=["binary_cross_entropy needs labels 0 and 1, but the data have 10 classes"])


main()
