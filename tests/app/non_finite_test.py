#!/usr/bin/env python3
"""Numbers that are not finite, in the data or by a learning rate that is too large: all ranks stop at the same step with a
checkpoint of the last good state, or updates are left out and counted; a resumed run goes on."""

import h5py
import numpy as np

from program import ProgramTest, main, read_metrics, sets

IMAGES, BROKEN = 96, 41
RUN_FILE = """
name = "run"
[training]
epochs = 3
batch = 12
threads = 1
[data]
format = "hdf5"
path = "{path}"
[network]
name = "small"
[[network.layer]]
type = "conv"
channels = 4
kernel = 3
bias = false
[[network.layer]]
type = "batch_norm"
[[network.layer]]
type = "relu"
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 3
[optimizer]
learning_rate = 0.05
[averager]
name = "{averager}"
[output]
print_steps = 0
"""


class NonFinite(ProgramTest):
    def run_file(self, averager, broken):
        generator = np.random.default_rng(1)
        path = self.path("set.h5")
        with h5py.File(path, "w") as file:
            for split, images in (("train", IMAGES), ("test", 24)):
                labels = np.arange(images) % 3
                pixels = generator.random((images, 6, 6, 1), np.float32) + labels[:, None, None, None].astype(np.float32)
                if broken and split == "train":
                    pixels[BROKEN, 2, 3, 0] = np.nan
                file[f"{split}/images"] = pixels
                file[f"{split}/labels"] = labels.astype(np.uint8)
        return self.write("run.toml", RUN_FILE.format(path=path, averager=averager))

    def checkpoint(self):
        """The path of the only checkpoint of the run, all of whose numbers must be finite."""
        shown = self.succeed_json("inspect", self.path("runs/run/checkpoint.h5"))
        self.assertEqual(shown["damaged"], [])
        self.assertTrue(np.isfinite(shown["norm"]).all(), shown["norm"])
        for tensor in shown["mean"]:
            self.assertIsNotNone(tensor["norm"], tensor)
        return shown

    def test_a_broken_image_stops_all_ranks_with_a_checkpoint(self):
        for ranks, averager in ((1, "none"), (3, "neighbour"), (2, "allreduce")):
            with self.subTest(ranks=ranks, averager=averager):
                path = self.run_file(averager, True)
                result = self.run_program("train", path, "--overwrite", ranks=ranks)
                self.check_refused(result, "step ", "rank ", f"image {BROKEN} of the training set", "set.h5",
                                   "the last state that was finite is in", "non_finite")
                stopped = self.checkpoint()
                self.assertEqual(stopped["ranks"], ranks)
                self.run_file(averager, False)  # mended
                result = self.succeed_json("train", path, "--resume", ranks=ranks)
                self.assertEqual((result["epochs"], result["steps"]), (3, 24))
                self.assertEqual(result["skipped_updates"], 0)

    def test_a_broken_image_is_left_out_and_counted(self):
        for ranks, averager in ((1, "none"), (2, "neighbour"), (2, "allreduce")):
            with self.subTest(ranks=ranks, averager=averager):
                path = self.run_file(averager, True)
                result = self.succeed_json("train", path, "--overwrite", *sets(training__non_finite="skip"), ranks=ranks)
                self.assertEqual((result["epochs"], result["steps"], result["skipped_updates"]), (3, 24, 3))
                self.assertGreater(result["mean_model_accuracy"], 0.5)
                metrics = read_metrics(self.path(result["metrics"]))
                self.assertEqual(metrics["step/skipped"].shape, (24, ranks))
                self.assertEqual(metrics["step/skipped"].sum(), 3)
                for epoch in range(3):
                    self.assertEqual(metrics["step/skipped"][8 * epoch:8 * epoch + 8].sum(), 1)
                self.assertTrue((np.isnan(metrics["step/loss"]) == (metrics["step/skipped"] == 1)).all())
                self.assertTrue(np.isfinite(metrics["epoch/train_loss"]).all())
                self.checkpoint()

    def test_without_any_gradient_no_weight_moves(self):
        """Every image is broken: momentum and weight decay would move what the checkpoint of the start has."""
        words = sets(training__non_finite="skip", training__epochs=1, optimizer__momentum=0.9, optimizer__weight_decay=0.1)
        for ranks, averager in ((1, "allreduce"), (2, "allreduce"), (2, "none")):
            path = self.run_file(averager, True)
            with h5py.File(self.path("set.h5"), "r+") as file:
                file["train/images"][:, 2, 3, 0] = np.nan
            result = self.succeed_json("train", path, "--overwrite", *words, ranks=ranks)
            self.assertEqual(result["skipped_updates"], 8 * ranks, averager)
            norms = [self.checkpoint()["norm"]]
            self.succeed("train", path, "--resume", *words, *sets(training__epochs=2), ranks=ranks)
            norms.append(self.checkpoint()["norm"])
            self.assertEqual(norms[0], norms[1], averager)

    def test_an_exploding_learning_rate(self):
        explode = sets(optimizer__learning_rate=1e30)
        for ranks, averager in ((1, "none"), (2, "neighbour"), (2, "allreduce")):
            with self.subTest(ranks=ranks, averager=averager):
                path = self.run_file(averager, False)
                result = self.run_program("train", path, "--overwrite", *explode, ranks=ranks)
                self.check_refused(result, "step ", "rank ", "layer ", "is not finite", "learning_rate",
                                   "the last state that was finite is in")
                self.checkpoint()
                result = self.succeed_json("train", path, "--overwrite", *explode, *sets(training__non_finite="skip"),
                                           ranks=ranks)
                self.assertEqual(result["steps"], 24)
                self.assertGreater(result["skipped_updates"], 0)
                self.checkpoint()


if __name__ == "__main__":
    main()
