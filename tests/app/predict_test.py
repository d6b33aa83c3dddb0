#!/usr/bin/env python3
"""halograd predict, and evaluate on other data: held against evaluate, numpy and each other."""

import csv
import os
import re

import h5py
import numpy as np

from image_files import write_png
from program import (DIGITS, INPUTS, PROGRAM, PreparedTest, ProgramTest, execute, launched, main, read_metrics,
                     sets)

DIGITS_FILE = os.path.join(INPUTS, "digits.h5")


def write_idx(path, images):
    with open(path, "wb") as file:
        file.write(np.array([0x803, *images.shape], ">i4").tobytes() + images.tobytes())


class PredictTest(ProgramTest):
    def read(self, name="out.h5"):
        with h5py.File(self.path(name), "r") as file:
            return {key: file[key][()] for key in file}, dict(file.attrs)

    def predict(self, checkpoint, data, *words, name="out.h5", ranks=1):
        """The datasets and attributes that it leaves, and nothing else."""
        out = self.succeed_json("predict", checkpoint, data, "--output", name, "--overwrite", *words, ranks=ranks)
        self.assertEqual([entry for entry in os.listdir(self.folder) if entry.endswith(".partial")], [])
        found = self.read(name)
        self.assertEqual(out["extents"], list(found[0][out["dataset"]].shape))
        return found


class Digits(PredictTest, PreparedTest):
    """A run of the digits on three ranks, whose replicas differ."""

    def prepare(self):
        self.succeed("train", DIGITS, *sets(training__epochs=2, schedule__name="constant"), ranks=3)

    def setUp(self):
        super().setUp()
        self.checkpoint = "runs/digits/checkpoint.h5"
        with h5py.File(DIGITS_FILE, "r") as file:
            self.images, self.labels = file["test/images"][()], file["test/labels"][()]

    def test_scores_of_the_test_set(self):
        evaluated = self.succeed_json("evaluate", self.checkpoint, ranks=2)
        first, attributes = self.predict(self.checkpoint, DIGITS_FILE, ranks=0)
        self.assertEqual(sorted(first), ["classes", "scores"])
        scores, classes = first["scores"], first["classes"]
        self.assertEqual((scores.shape, scores.dtype, classes.dtype), ((359, 10), np.float32, np.int32))
        np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_array_equal(scores.argmax(axis=1), classes)
        self.assertEqual((classes == self.labels).mean(), evaluated["mean_model_accuracy"])
        loss = -np.log(scores[np.arange(359), self.labels].astype(np.float64)).mean()
        self.assertAlmostEqual(loss, evaluated["mean_model_loss"], 4)
        versions = attributes.pop("versions")
        for word in ("halograd", "Kokkos", "HDF5"):
            self.assertIn(word, versions)
        self.assertEqual(attributes, {"format": "halograd predictions", "format_version": 1, "checkpoint": self.checkpoint,
                                      "replica": "mean", "network": "digits_net", "step": 46, "epoch": 2,
                                      "data": DIGITS_FILE, "loss": "cross_entropy"})
        for ranks, batch in ((1, 64), (2, 7), (4, 3)):
            again, _ = self.predict(self.checkpoint, DIGITS_FILE, *sets(training__batch=batch), ranks=ranks)
            for name, values in first.items():
                self.assert_same_bits(values, again[name], f"{name} on {ranks} ranks, batch {batch}")
        out = self.succeed("predict", self.checkpoint, DIGITS_FILE, "--output", "said.h5", ranks=2)
        self.assertEqual(out, f"said.h5: scores (359 x 10) for {DIGITS_FILE} by digits_net, the mean of the replicas\n")

    def test_replicas_and_splits(self):
        accuracy = read_metrics(self.path("runs/digits/metrics.h5"))["epoch/test_accuracy"][-1]
        for replica, ranks in ((0, 0), (1, 1), (2, 2)):
            found, attributes = self.predict(self.checkpoint, DIGITS_FILE, "--replica", replica, ranks=ranks)
            self.assertEqual(attributes["replica"], str(replica))
            self.assertEqual((found["classes"] == self.labels).mean(), accuracy[replica])
        found, _ = self.predict(self.checkpoint, DIGITS_FILE, "--split", "train", ranks=2)
        with h5py.File(DIGITS_FILE, "r") as file:
            self.assertGreater((found["classes"] == file["train/labels"][()]).mean(), 0.9)
        self.refuse("predict", self.checkpoint, DIGITS_FILE, "--output", "x.h5", "--replica", 3,
                    words=[self.checkpoint, "3 ranks", "no replica 3"])
        for replica in ("2.5", "-1", "1e3", "average"):
            result = self.run_program("predict", self.checkpoint, DIGITS_FILE, "--output", "x.h5", "--replica=" + replica)
            self.assertNotEqual(result.status, 0)
            self.assertIn(f"--replica: ({replica} not in {{mean}})", result.err)

    def test_images_without_labels_in_each_format(self):
        """The same 8-bit values from each: the same scores, in the order of the images."""
        images = np.concatenate([16 * self.images[:40] - (self.images[:40] > 0), self.images[:1]])[..., 0].astype(np.uint8)
        with h5py.File(self.path("bytes.h5"), "w") as file:
            file["images"] = images[..., None]
        expected, _ = self.predict(self.checkpoint, "bytes.h5")
        self.assertEqual(expected["scores"].shape, (41, 10))
        with h5py.File(self.path("floats.h5"), "w") as file:
            floats = (images[..., None] / np.float32(255)).astype(np.float32)
            file.create_dataset("test/images", data=floats, chunks=(3, 8, 8, 1), compression="gzip")
        os.makedirs(self.path("idx"))
        write_idx(self.path("idx", "t10k-images-idx3-ubyte"), images)
        for number, image in enumerate(images):
            write_png(self.path("photos", f"{number // 10}", f"{number:03}.png"), image)
        for data in ("floats.h5", "idx", "idx/t10k-images-idx3-ubyte", "photos"):
            if data == "photos" and "built without" in self.run_program("predict", self.checkpoint, data, "--output", "x.h5").err:
                continue
            for ranks in (0, 2):
                found, _ = self.predict(self.checkpoint, data, ranks=ranks)
                self.assert_same_bits(expected["scores"], found["scores"], f"{data} on {ranks} ranks")
                names = [name.decode() for name in found.get("names", [])]
                self.assertEqual(names, [f"{i // 10}/{i:03}.png" for i in range(41)] if data == "photos" else [])

    def test_fewer_images_than_ranks(self):
        with h5py.File(self.path("few.h5"), "w") as file:
            file["images"] = self.images[:2]
            file["images"].attrs["maximum"] = 16
        found, _ = self.predict(self.checkpoint, "few.h5", ranks=3)
        self.assert_same_bits(found["scores"], self.predict(self.checkpoint, DIGITS_FILE)[0]["scores"][:2], "few")

    def test_table_of_the_best_classes(self):
        found, _ = self.predict(self.checkpoint, DIGITS_FILE, "--csv", "best.csv", "--top", 3, ranks=2)
        with open(self.path("best.csv"), encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0], ["image", "class1", "score1", "class2", "score2", "class3", "score3"])
        order = np.argsort(-found["scores"], axis=1, kind="stable")[:, :3]
        for image, line in enumerate(lines[1:]):
            self.assertEqual(line[0], str(image))
            self.assertEqual([int(word) for word in line[1::2]], order[image].tolist())
            self.assertEqual([np.float32(word) for word in line[2::2]], found["scores"][image, order[image]].tolist())
        self.assertEqual(len(lines), 360)
        self.predict(self.checkpoint, DIGITS_FILE, "--csv", "best.csv", "--top", 100)  # as many as there are
        with open(self.path("best.csv"), encoding="utf-8") as file:
            self.assertEqual(file.readline().count("class"), 10)

    def test_refusals(self):
        with h5py.File(self.path("large.h5"), "w") as file:
            file["images"] = np.zeros((4, 16, 8, 1), np.float32)
        with h5py.File(self.path("colour.h5"), "w") as file:
            file["images"] = np.zeros((4, 8, 8, 3), np.float32)
        with h5py.File(self.path("hollow.h5"), "w") as file:
            file["pictures"] = np.zeros((4, 8, 8, 1), np.float32)
        with h5py.File(self.path("broken.h5"), "w") as file:
            images = np.zeros((100, 8, 8, 1), np.float32)
            images[70, 3, 4] = np.nan
            file["images"] = images
        os.makedirs(self.path("empty"))
        self.write("taken.h5", "mine")
        self.write("text.h5", "this is no HDF5 file, and no IDX file either")

        def refuse(data, *words, output="x.h5", extra=(), ranks=0):
            self.refuse("predict", self.checkpoint, data, "--output", output, *extra, words=words, ranks=ranks)

        refuse("large.h5", "large.h5: has images of 16x8x1, expected 8x8x1", self.checkpoint)
        refuse("colour.h5", "colour.h5: has images of 8x8x3, expected 8x8x1")
        refuse("hollow.h5", "hollow.h5: has no dataset /images or /test/images")
        refuse("broken.h5", "broken.h5:/images: image 70 has the value nan at position 28", ranks=3)  # one rank finds it
        refuse("nowhere", "nowhere: no such file or folder")
        refuse("empty", "empty: holds no images")
        refuse("text.h5", "text.h5: not an HDF5 file")
        refuse(DIGITS_FILE, "taken.h5: exists; --overwrite replaces it", output="taken.h5")
        refuse(DIGITS_FILE, "taken.h5: exists; --overwrite replaces it", extra=["--csv", "taken.h5"])
        refuse(DIGITS_FILE, "nowhere/x.csv: its folder does not exist", extra=["--csv", "nowhere/x.csv"])
        refuse(DIGITS_FILE, "nowhere/x.h5", output="nowhere/x.h5")
        refuse(DIGITS_FILE, "--size applies only to folders of image files", extra=["--size", "8x8"])
        refuse("large.h5", self.checkpoint, "38330 parameters", "this network has", extra=["--input", "16x8x1"])
        refuse("large.h5", "--input is '9by8'", extra=["--input", "9by8"])
        self.refuse("predict", "runs/digits/metrics.h5", DIGITS_FILE, "--output", "x.h5",
                    words=["halograd metrics", "halograd checkpoint"])
        self.assertFalse(os.path.exists(self.path("x.h5")))

    def test_image_files_of_other_sizes(self):
        random = np.random.default_rng(3)
        for name, shape in (("a.png", (16, 16)), ("b.png", (8, 8))):
            write_png(self.path("mixed", name), random.integers(0, 256, shape, np.uint8))
        result = self.run_program("predict", self.checkpoint, "mixed", "--output", "x.h5", ranks=2)
        if "built without" in result.err:
            self.skipTest("SKIPPED: this halograd was built without libpng and libjpeg-turbo")
        self.check_refused(result, "mixed: has images of 16x16x1, expected 8x8x1")
        found, _ = self.predict(self.checkpoint, "mixed", "--size", "8x8", ranks=2)
        self.assertEqual(found["scores"].shape, (2, 10))
        os.rename(self.path("mixed", "b.png"), self.path("mixed", "0.png"))
        self.refuse("predict", self.checkpoint, "mixed", "--output", "x.h5",
                    words=["mixed/a.png: is 16x16", "the first image, 0.png, is 8x8", "--size"])
        write_png(self.path("mixed", "cut.png"), np.zeros((8, 8), np.uint8))
        with open(self.path("mixed", "cut.png"), "r+b") as file:
            file.truncate(40)
        self.refuse("predict", self.checkpoint, "mixed", "--output", "x.h5", "--size", "8x8", words=["mixed/cut.png"])

    def test_evaluate_on_other_data_and_its_report(self):
        """A file with a test set alone, of some of the classes."""
        few = self.labels < 7
        with h5py.File(self.path("few.h5"), "w") as file:
            file["test/images"], file["test/labels"] = self.images[few], self.labels[few]
            file["test/images"].attrs["maximum"] = 16
        classes = self.predict(self.checkpoint, DIGITS_FILE)[0]["classes"][few]
        confusion = np.zeros((10, 10), int)
        np.add.at(confusion, (self.labels[few], classes), 1)
        for ranks in (0, 3):
            values = self.succeed_json("evaluate", self.checkpoint, "--data", "few.h5", "--report", ranks=ranks)
            self.assertEqual(values["images"], few.sum())
            self.assertEqual(values["mean_model_accuracy"], (classes == self.labels[few]).mean())
            self.assertEqual(values["confusion"], confusion.tolist())
            np.testing.assert_allclose(values["class_accuracy"], confusion.diagonal() / np.maximum(1, confusion.sum(axis=1)))
        out = self.succeed("evaluate", self.checkpoint, "--data", "few.h5", "--report", ranks=2)
        for label in range(10):
            share = 100 * confusion[label, label] / max(1, confusion[label].sum())
            counts = " +".join(map(str, confusion[label]))
            self.assertRegex(out, rf"(?m)^ +{label} +{confusion[label].sum()} +{re.escape(f'{share:.2f}')} % +{counts}$")
        self.assertNotIn("confusion", self.succeed_json("evaluate", self.checkpoint))
        with h5py.File(self.path("more.h5"), "w") as file:
            file["test/images"], file["test/labels"] = self.images[:9], np.arange(3, 12)
        self.refuse("evaluate", self.checkpoint, "--data", "more.h5", words=["more.h5: has labels of 12 classes", "at most 10"])
        with h5py.File(self.path("large.h5"), "w") as file:
            file["test/images"], file["test/labels"] = np.zeros((4, 9, 8, 1), np.float32), np.arange(4)
        self.refuse("evaluate", self.checkpoint, "--data", "large.h5", words=["large.h5: has images of 9x8x1, expected 8x8x1"])
        self.refuse("evaluate", self.checkpoint, "--data", "nowhere.h5", words=["nowhere.h5: no such file or folder"])


class Reference(PredictTest):
    def test_cifar_and_a_reference_network(self):
        """The checkpoint says how many classes a reference network has: the data of its run are not asked."""
        run = self.write("run.toml", """
training = {epochs = 1, batch = 16}
network = {name = "resnet20"}
[data]
format = "synthetic"
synthetic_train = 32
synthetic_test = 4
synthetic_shape = [32, 32, 3]
synthetic_classes = 7
""")
        self.succeed("train", run)
        random = np.random.default_rng(5)
        images = random.integers(0, 256, (7, 3, 32, 32), np.uint8)
        os.makedirs(self.path("cifar"))
        for name in ("data_batch_1", "test_batch"):
            with open(self.path("cifar", f"{name}.bin"), "wb") as file:
                file.write(b"".join(b"\1" + image.tobytes() for image in images))
        with h5py.File(self.path("same.h5"), "w") as file:
            file["images"] = images.transpose(0, 2, 3, 1)
        expected, _ = self.predict("runs/run/checkpoint.h5", "same.h5", ranks=1)
        self.assertEqual(expected["scores"].shape, (7, 7))
        for ranks in (0, 2):
            found, _ = self.predict("runs/run/checkpoint.h5", "cifar", ranks=ranks)
            self.assert_same_bits(expected["scores"], found["scores"], f"cifar on {ranks} ranks")


class Values(PredictTest):
    def test_real_numbers(self):
        chance = np.random.default_rng(2)
        mixer = chance.normal(size=(6, 2))
        with h5py.File(self.path("numbers.h5"), "w") as file:
            for split, count in (("train", 64), ("test", 11)):
                rows = chance.random((count, 6, 1), dtype=np.float32)
                file[f"{split}/images"] = rows
                file[f"{split}/labels"] = (rows[..., 0] @ mixer).astype(np.float32)
        run = self.write("run.toml", """
training = {epochs = 2, batch = 8}
network = {name = "linear", layer = [{type = "flatten"}, {type = "dense", name = "one", channels = 2}]}
loss = {name = "mean_squared_error"}
data = {format = "hdf5", path = "numbers.h5", mean = [0.5], standard_deviation = [0.25]}
""")
        self.succeed("train", run, ranks=2)
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            weight, bias = file["mean/one/weight"][()], file["mean/one/bias"][()]
        with h5py.File(self.path("numbers.h5")) as file:
            rows = (file["test/images"][..., 0].astype(np.float64) - 0.5) / 0.25
        for ranks in (1, 2):
            found, _ = self.predict("runs/run/checkpoint.h5", "numbers.h5", ranks=ranks)
            self.assertEqual(sorted(found), ["values"])
            np.testing.assert_allclose(found["values"], rows @ weight + bias, atol=1e-5)
        self.refuse("evaluate", "runs/run/checkpoint.h5", "--report", words=["--report", "mean_squared_error"])
        self.refuse("predict", "runs/run/checkpoint.h5", "numbers.h5", "--output", "x.h5", "--csv", "x.csv",
                    words=["--csv needs", "mean_squared_error"])


class Pixels(PredictTest):
    def train(self, layers, shape=(9, 7, 1), axes=2):
        """A short run with a label per pixel."""
        chance = np.random.default_rng(2)
        with h5py.File(self.path("pixels.h5"), "w") as file:
            for split, count in (("train", 48), ("test", 10)):
                images = chance.random((count, *shape), dtype=np.float32)
                file[f"{split}/images"] = images
                file[f"{split}/labels"] = (images[..., 0] > 0.6).astype(np.uint8)
                file[f"{split}/labels"].attrs["classes"] = 2
        run = self.write("run.toml", f"""
training = {{epochs = 2, batch = 8}}
network = {{name = "pixels", layer = [{layers}]}}
loss = {{name = "binary_cross_entropy"}}
optimizer = {{learning_rate = 0.5}}
data = {{format = "hdf5", path = "pixels.h5"}}
""")
        self.succeed("train", run, "--overwrite", ranks=2)

    def write_images(self, name, shape):
        with h5py.File(self.path(name), "w") as file:
            file["images"] = np.random.default_rng(4).random(shape, dtype=np.float32)
            return file["images"][()]

    def test_a_score_for_each_pixel(self):
        self.train('{type = "conv", name = "one", channels = 1, kernel = 1}')
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            weight, bias = (float(file[f"mean/one/{name}"][()].ravel()[0]) for name in ("weight", "bias"))
        for shape in ((5, 9, 7, 1), (5, 9, 16, 1), (3, 30, 40, 1)):
            images = self.write_images("images.h5", shape)
            expected = 1 / (1 + np.exp(-(weight * images.astype(np.float64) + bias)))
            first = None
            for ranks in (0, 4):
                found, _ = self.predict("runs/run/checkpoint.h5", "images.h5", ranks=ranks)
                np.testing.assert_allclose(found["scores"], expected, atol=1e-6)
                np.testing.assert_array_equal(found["classes"], found["scores"][..., 0] > 0.5)
                first = first or found
                self.assert_same_bits(first["scores"], found["scores"], f"{shape} on {ranks} ranks")
        for shape in ((5, 9, 6, 1), (5, 8, 7, 1), (5, 9, 7, 2), (5, 9, 7)):
            self.write_images("images.h5", shape)
            self.refuse("predict", "runs/run/checkpoint.h5", "images.h5", "--output", "x.h5",
                        words=["images.h5: has images of " + "x".join(map(str, shape[1:])), "expected 9x7x1 or larger"], ranks=0)
        self.refuse("predict", "runs/run/checkpoint.h5", "pixels.h5", "--output", "x.h5", "--csv", "x.csv",
                    words=["--csv needs", "9x7x1"])
        values = self.succeed_json("evaluate", "runs/run/checkpoint.h5", "--report", ranks=2)
        with h5py.File(self.path("pixels.h5")) as file:
            labels = file["test/labels"][()]
        found = self.predict("runs/run/checkpoint.h5", "pixels.h5")[0]["classes"]
        self.assertEqual(values["confusion"], [[int(((labels == i) & (found == j)).sum()) for j in (0, 1)] for i in (0, 1)])

    def test_ranks_share_the_tiles_of_an_image(self):
        """The same bits for any number of ranks and tiles at once, and from image files, which are read whole."""
        self.train('{type = "conv", name = "one", channels = 1, kernel = 3, padding = 1}')
        random = np.random.default_rng(6)
        for count in (1, 3):
            images = random.integers(0, 256, (count, 25, 31), np.uint8)
            with h5py.File(self.path("images.h5"), "w") as file:
                file.create_dataset("images", data=images[..., None], chunks=(1, 8, 8, 1), compression="gzip")
            first, _ = self.predict("runs/run/checkpoint.h5", "images.h5", ranks=0)
            for number, image in enumerate(images):
                write_png(self.path("photos", f"{number}.png"), image)
            photos = "built without" not in self.run_program("predict", "runs/run/checkpoint.h5", "photos", "--output", "x.h5").err
            for data in ["images.h5", *(["photos"] if photos else [])]:
                for ranks, batch in ((1, 5), (2, 64), (4, 4), (4, 64)):
                    found, _ = self.predict("runs/run/checkpoint.h5", data, *sets(training__batch=batch), ranks=ranks)
                    for name in ("scores", "classes"):
                        self.assert_same_bits(first[name], found[name], f"{name} of {count} {data} on {ranks} ranks")
        out = self.succeed_json("predict", "runs/run/checkpoint.h5", "images.h5", "--output", "again.h5")
        self.assertEqual((out["images"], out["tiles"]), (3, 4 * 6))

    def test_a_broken_tile_ends_all_ranks(self):
        """Ranks that share an image: one finds what is wrong with it."""
        self.train('{type = "conv", name = "one", channels = 1, kernel = 1}')
        images = np.zeros((1, 30, 40, 1), np.float32)
        images[0, 25, 30] = np.nan
        with h5py.File(self.path("broken.h5"), "w") as file:
            file["images"] = images
        self.refuse("predict", "runs/run/checkpoint.h5", "broken.h5", "--output", "x.h5", ranks=3,
                    words=["broken.h5:/images, from pixel 21, 28 on: image 0 has the value nan at position 30"])
        self.assertFalse(os.path.exists(self.path("x.h5")))

    def test_a_volume_larger_than_memory(self):
        """The volume's values take more than each process may have; one rank predicts them, and so do four."""
        self.train('{type = "conv", name = "one", channels = 1, kernel = 1}', shape=(16, 32, 64, 1))
        shape = (1, 256, 256, 512, 1)
        images = np.random.default_rng(4).integers(0, 256, shape, np.uint8)
        with h5py.File(self.path("large.h5"), "w") as file:
            file["images"] = images
        with h5py.File(self.path("runs/run/checkpoint.h5")) as file:
            weight, bias = (float(file[f"mean/one/{name}"][()].ravel()[0]) for name in ("weight", "bias"))
        limited = self.write("limited.sh", 'ulimit -d $1 && exec "${@:2}"\n')

        def predict(limit, ranks, *words):
            words = launched(["predict", "runs/run/checkpoint.h5", "large.h5", "--output", "out.h5", *words], ranks)
            at = words.index(PROGRAM)
            return execute([*words[:at], "bash", limited, str(limit), *words[at:]], self.folder)

        limit = 320000  # KiB; less than the values of the volume as float32 and what the libraries take
        whole = predict(limit, 0, "--input", "x".join(map(str, shape[1:])))
        free = float(re.search(r"but only ([0-9.]+) GB of memory are free", whole.err).group(1))
        limit += int((0.1 - free) * 1e9 / 1024)
        self.check_refused(whole, "of memory are free")
        for ranks in (0, 4):
            result = predict(limit, ranks, *(["--overwrite"] if ranks else []))
            self.assertEqual((result.status, result.err), (0, ""), result.out)
            with h5py.File(self.path("out.h5")) as file:
                for begin in range(0, shape[1], 32):
                    part = np.s_[0, begin:begin + 32]
                    expected = 1 / (1 + np.exp(-(weight * (images[part] / np.float64(255)) + bias)))
                    np.testing.assert_allclose(file["scores"][part], expected, atol=1e-6)
                    np.testing.assert_array_equal(file["classes"][part], file["scores"][part][..., 0] > 0.5)

    def check_tiles(self, tile, image, overlap):
        """Where no tile that covers a pixel ends near it, the pixel's score is that of the whole image."""
        images = self.write_images("images.h5", (2, *image, 1))
        found, _ = self.predict("runs/run/checkpoint.h5", "images.h5", "--overlap", overlap, ranks=2)
        shape = "x".join(map(str, (*image, 1)))
        whole, _ = self.predict("runs/run/checkpoint.h5", "images.h5", "--input", shape, ranks=1)
        self.assertEqual(whole["scores"].shape, images.shape)
        near = np.zeros(image, bool)
        for axis, (length, size) in enumerate(zip(image, tile)):
            gaps = -(-(length - size) // max(1, int((1 - overlap) * size)))
            inner = np.zeros(length, bool)
            for i in range(gaps + 1):
                begin = i * (length - size) // max(1, gaps)
                if begin > 0:
                    inner[begin] = True
                if begin + size < length:
                    inner[begin + size - 1] = True
            near |= inner.reshape([-1 if each == axis else 1 for each in range(len(image))])
        self.assertTrue(near.any() and not near.all())
        np.testing.assert_allclose(found["scores"][:, ~near], whole["scores"][:, ~near], atol=1e-6)
        self.assertGreater(np.abs(found["scores"] - whole["scores"])[:, near].max(), 1e-4)

    def test_tiles_of_a_convolution(self):
        self.train('{type = "conv", name = "one", channels = 1, kernel = 3, padding = 1}')
        self.check_tiles((9, 7), (25, 9), 0.0)
        self.check_tiles((9, 7), (20, 31), 0.5)

    def test_tiles_of_volumes(self):
        self.train('{type = "conv", name = "one", channels = 1, kernel = 3, padding = 1}', shape=(6, 5, 7, 1))
        self.check_tiles((6, 5, 7), (11, 9, 13), 0.3)


if __name__ == "__main__":
    main()
