#!/usr/bin/env python3
"""Flood filling: a network that follows objects view by view is trained on fields, judged, and finds the objects of volumes."""

import os
import sys

import h5py
import numpy as np

from program import DIGITS, SOURCE, ProgramTest, execute, main, read_metrics, read_replicas, sets

RUN_FILE = """
[training]
epochs = 8
batch = 8
threads = 1

[data]
format = "objects"
path = "bars.h5"
objects_field = 15
objects_background = 0.4
objects_train = 256
objects_test = 24
mean = [0.5]
standard_deviation = [0.25]

[network]
name = "follows"
layer = [
  {type = "conv", channels = 8, kernel = 3, padding = 1},
  {type = "relu"},
  {type = "conv", channels = 8, kernel = 3, padding = 1},
  {type = "relu"},
  {type = "conv", channels = 8, kernel = 3, padding = 1},
  {type = "relu"},
  {type = "conv", name = "update", channels = 1, kernel = 1},
  {type = "slice", name = "mask", channels = 1, inputs = ["input"]},
  {type = "add", name = "logits", inputs = ["update", "mask"]}]

[flood_filling]
view = 9
move = 3
visits = 5
move_threshold = 0.8

[loss]
name = "binary_cross_entropy"
label_smoothing = 0.1

[optimizer]
name = "adam"
learning_rate = 0.01

[schedule]
name = "cosine"
"""


def bars(seed):
    """Four bright bars from end to end of a volume, with dark gaps between them, and some noise."""
    objects = np.zeros((32, 24, 24), np.uint32)
    for number, (h, w) in enumerate(((3, 3), (3, 14), (14, 3), (14, 14)), 1):
        objects[:, h:h + 6, w:w + 6] = number
    brightness = np.where(objects > 0, 190, 60) + np.random.default_rng(seed).normal(scale=20, size=objects.shape)
    return brightness.clip(0, 255).astype(np.uint8)[..., None], objects


class FloodFilling(ProgramTest):
    def setUp(self):
        super().setUp()
        with h5py.File(self.path("bars.h5"), "w") as file:
            for split, count in (("train", 2), ("test", 1)):
                volumes = [bars(seed + (split == "test") * 10) for seed in range(count)]
                file[f"{split}/images"], file[f"{split}/objects"] = map(np.stack, zip(*volumes))
        self.run_file = self.write("run.toml", RUN_FILE)

    def test_from_training_to_objects(self):
        out = self.succeed("train", self.run_file, ranks=2)
        self.assertRegex(out, r"(?m)^  flood filling +fields of view of 9x9x9x2, mask first, at most 5 of an image and step$")
        metrics = read_metrics(self.path("runs/run/metrics.h5"))
        iou = metrics["epoch/mean_model_iou"]
        self.assertGreater(iou[-1], 0.7)
        loss = metrics["epoch/train_loss"].mean(axis=1)
        least = -0.05 * np.log(0.05) - 0.95 * np.log(0.95)  # of smoothed labels
        self.assertLess(loss[-1] - least, (loss[0] - least) / 2)
        checkpoint = "runs/run/checkpoint.h5"
        with h5py.File(self.path(checkpoint)) as file:
            self.assertEqual(file.attrs["input"], "9x9x9x2")

        for ranks in (0, 3):
            found = self.succeed_json("evaluate", checkpoint, "--report", ranks=ranks)
            self.assertAlmostEqual(found["mean_model_iou"], iou[-1], delta=1e-6)
            self.assertAlmostEqual(found["mean_model_loss"], metrics["epoch/mean_model_loss"][-1], delta=1e-5)

        truth = bars(10)[1]
        for ranks, words in ((0, []), (0, ["--consensus"]), (3, [])):
            said = self.succeed_json("segment", checkpoint, "bars.h5", "--output", "found.h5", "--overwrite", *words, ranks=ranks)
            self.assertEqual((said["output"], said["replica"]), ("found.h5", "mean"))
            with h5py.File(self.path("found.h5")) as file:
                found = file["objects"][0]
                attributes = {name: value for name, value in file.attrs.items() if name != "versions"}
            self.assertEqual(attributes, {"format": "halograd objects", "format_version": 1, "checkpoint": checkpoint,
                                          "replica": "mean", "network": "follows", "step": 256, "epoch": 8, "data": "bars.h5"})
            self.assertEqual((found.dtype, found.shape, said["objects"]), (np.uint32, truth.shape, [found.max()]))
            bar = truth > 0  # most of them is found, and no object is of two
            self.assertGreater((found[bar] > 0).mean(), 0.7, f"{ranks} ranks")
            for label in range(1, found.max() + 1):
                bars_of = np.bincount(truth[bar & (found == label)], minlength=5)
                self.assertGreater(bars_of.max(), 0.9 * bars_of.sum(), f"object {label} on {ranks} ranks")
        out = self.succeed("segment", checkpoint, "bars.h5", "--output", "train.h5", "--split", "train", "--replica", "1")
        self.assertRegex(out, r"^train\.h5: \d+ \+ \d+ objects in 2 images of bars\.h5 by follows\n$")
        score = [sys.executable, os.path.join(SOURCE, "tests", "performance", "segmentation.py"), "bars.h5", "found.h5"]
        self.assertIn("| flood filling |", execute(score, self.folder).out)

        self.refuse("predict", checkpoint, "bars.h5", "--output", "no.h5", words=["flood-filling", "halograd segment"])
        self.refuse("segment", checkpoint, "bars.h5", "--output", "found.h5", words=["found.h5", "--overwrite"])
        self.refuse("segment", checkpoint, "bars.h5", "--output", "no.h5", words=["at most 3 ranks", "of 32 pixels"], ranks=4)
        self.refuse("segment", checkpoint, "bars.h5", "--output", "no.h5", "--set", "flood_filling.view=7",
                    words=["7x7x7x2", "9x9x9x2"])
        self.refuse("segment", checkpoint, "nowhere.h5", "--output", "no.h5", words=["nowhere.h5", "no such file"])

    def test_resumes_bit_by_bit(self):
        words = ["train", self.run_file, *sets(data__objects_train=48, training__epochs=2, output__keep=2)]
        self.succeed(*words, ranks=3)
        gold = read_replicas(self.path("runs/run/checkpoint.h5"))
        checkpoints = self.path("runs/run/checkpoints")
        os.remove(os.path.join(checkpoints, max(os.listdir(checkpoints))))
        self.assertIn("Resumed from", self.succeed(*words, "--resume", ranks=3))
        silver = read_replicas(self.path("runs/run/checkpoint.h5"))
        self.assertEqual(sorted(gold), sorted(silver))
        for name in gold:
            self.assert_same_bits(gold[name][0], silver[name][0], name)

    def test_commands_know_the_field_of_view(self):
        measured = self.succeed_json("benchmark", "--config", self.run_file, "--seconds", "0.1", ranks=0)
        self.assertEqual(measured["networks"][0]["input"], "9x9x9x2")
        self.succeed("train", self.run_file, *sets(data__objects_train=16, training__epochs=1))
        self.succeed("convert", "runs/run/checkpoint.h5", "state.h5")
        self.succeed("convert", "state.h5", "again.h5", "--config", self.run_file)

    def test_every_pace_trains_it(self):
        for settings in ([("averager__name", "allreduce")], [("averager__name", "ad_psgd")]):
            said = self.succeed_json("train", self.run_file, *sets(**dict(settings), data__objects_train=64, training__epochs=1),
                                     "--overwrite", ranks=2)
            self.assertEqual(said["epochs"], 1)

    def test_refusals(self):
        refuse = lambda words, **keys: self.refuse("train", self.run_file, *sets(**keys), words=words)
        refuse(["flood_filling.view", "17x17x17x2", "15x15x15x1"], flood_filling__view=17)
        refuse(["flood_filling.view has 2 numbers", "3 spatial axes"], flood_filling__view=[9, 9])
        refuse(["flood_filling.move has 2 numbers"], flood_filling__move=[3, 3])
        refuse(["parallel.spatial", "flood_filling.view = 0"], parallel__spatial=[1, 1, 2])
        refuse(["flood_filling", "data.flip"], data__flip=True)
        refuse(["flood_filling.move_threshold", "below 1"], flood_filling__move_threshold=1)
        self.refuse("train", DIGITS, *sets(flood_filling__view=5), words=["a label 0 or 1 for each", "1 labels an image"])
        self.succeed("train", DIGITS, *sets(training__epochs=1))
        self.refuse("segment", "runs/digits/checkpoint.h5", "bars.h5", "--output", "no.h5",
                    words=["sees whole images", "halograd predict"])


if __name__ == "__main__":
    main()
