#!/usr/bin/env python3
"""halograd import: folders of images, IDX and CIFAR files into one HDF5 file."""

import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np

from image_files import png_bytes, write_classes, write_png
from program import PROGRAM, ProgramTest, contents, main, sets

COUNTS = {"ant": 30, "bee": 20, "cat": 10}


def read_set(path, split):
    with h5py.File(path, "r") as file:
        return file[f"{split}/images"][()], file[f"{split}/labels"][()]


def as_keys(images, labels):
    return sorted((int(label), image.tobytes()) for image, label in zip(images, labels))


class Import(ProgramTest):
    def setUp(self):
        super().setUp()
        write_png(self.path("probe", "a", "x.png"), np.zeros((2, 2), np.uint8))
        result = self.run_program("import", "probe", "--output", "probe.h5")
        if "built without" in result.err:
            self.skipTest("SKIPPED: this halograd was built without libpng and libjpeg-turbo")
        shutil.rmtree(self.path("probe"))
        if os.path.exists(self.path("probe.h5")):
            os.remove(self.path("probe.h5"))

    def test_class_folders(self):
        images = write_classes(self.path("photos"), COUNTS)
        out = self.succeed_json("import", "photos", "--output", "photos.h5", "--test-fraction", "0.2")
        self.assertEqual((out["train_images"], out["test_images"], out["shape"]), (48, 12, [8, 8, 3]))
        found = []
        for split, of_class in (("train", [24, 16, 8]), ("test", [6, 4, 2])):
            values, labels = read_set(self.path("photos.h5"), split)
            self.assertEqual(np.bincount(labels).tolist(), of_class)
            found += as_keys(values, labels)
        names = sorted(COUNTS)
        expected = sorted((names.index(path.split(os.sep)[0]), image.tobytes()) for path, image in images.items())
        self.assertEqual(sorted(found), expected)
        with h5py.File(self.path("photos.h5"), "r") as file:
            self.assertEqual(sorted(file), ["test", "train"])  # nothing is left of a partial file
            self.assertEqual(dict(file.attrs), {})
            self.assertEqual(file["train/labels"].attrs["class_names"].tolist(), names)
            self.assertEqual(file["train/labels"].attrs["classes"], 3)
            self.assertEqual(file["train/images"].attrs["maximum"], 255)
            labels = file["train/labels"][()]
            self.assertGreater(np.count_nonzero(np.diff(labels)), 10)  # in a random order
        time.sleep(1.1)  # no time of writing is in the file: HDF5's are in seconds
        again = self.succeed_json("import", "photos", "--output", "again.h5", "--test-fraction", "0.2", "--threads", "3")
        self.assertEqual(again["train_images"], 48)
        with open(self.path("photos.h5"), "rb") as first, open(self.path("again.h5"), "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_train_and_test_folders_and_training_on_them(self):
        write_classes(self.path("set", "train"), COUNTS)
        tests = write_classes(self.path("set", "test"), {"bee": 3, "cat": 4}, seed=1)
        self.succeed("import", "set", "--output", "set.h5")
        values, labels = read_set(self.path("set.h5"), "test")
        self.assertEqual(labels.tolist(), [1] * 3 + [2] * 4)
        self.assertEqual([image.tobytes() for image in values], [tests[path].tobytes() for path in sorted(tests)])
        run = self.write("run.toml", """
name = "photos"
[data]
format = "hdf5"
path = "set.h5"
[network]
name = "small"
[[network.layer]]
type = "global_avg_pool"
[[network.layer]]
type = "dense"
channels = 3
""")
        for extra in ({}, {"data__shuffle": "window", "data__cache_memory": 0}):
            result = self.succeed_json("train", run, "--overwrite", *sets(training__batch=20, **extra), ranks=2)
            self.assertEqual(result["steps"], 3)

    def test_sizes_and_colours(self):
        random = np.random.default_rng(2)
        wide = random.integers(0, 256, (4, 8, 3), dtype=np.uint8)
        write_png(self.path("mix", "a", "1.png"), wide)
        write_png(self.path("mix", "a", "2.png"), np.full((2, 2, 3), 77, np.uint8))
        grey = random.integers(0, 256, (4, 8), dtype=np.uint8)
        write_png(self.path("mix", "b", "3.png"), grey)
        result = self.run_program("import", "mix", "--output", "mix.h5")
        self.check_refused(result, "1 of 3 images", "2x2", "--size HEIGHTxWIDTH")
        self.succeed("import", "mix", "--output", "mix.h5", "--size", "2x4", "--test-fraction", "0", "--colour", "rgb")
        values, labels = read_set(self.path("mix.h5"), "train")
        self.assertEqual(values.shape, (3, 2, 4, 3))
        halves = np.round(wide.reshape(2, 2, 4, 2, 3).mean(axis=(1, 3)))
        of_grey = np.round(grey.reshape(2, 2, 4, 2).mean(axis=(1, 3)))[..., None].repeat(3, axis=-1)
        expected = [(0, halves), (0, np.full((2, 4, 3), 77)), (1, of_grey)]
        for label, image in expected:
            near = [np.abs(value.astype(float) - image).max() <= 1 for value, of in zip(values, labels) if of == label]
            self.assertTrue(any(near), (label, image, values))
        self.succeed("import", "mix", "--output", "grey.h5", "--size", "4x8", "--colour", "grey", "--test-fraction", "0")
        values, labels = read_set(self.path("grey.h5"), "train")
        self.assertEqual(values[labels == 1][0].tobytes(), grey.tobytes())
        weighted = np.round(wide @ np.array([0.299, 0.587, 0.114]))
        near = [np.abs(value[..., 0].astype(float) - weighted).max() <= 1 for value in values[labels == 0]]
        self.assertTrue(any(near))

    def test_broken_images_are_listed_and_refused_or_skipped(self):
        write_classes(self.path("photos"), {"ant": 30, "bee": 20})
        whole = png_bytes(np.random.default_rng(3).integers(0, 256, (8, 8, 3), dtype=np.uint8))
        broken = {"ant/cut.png": whole[:100], "ant/empty.png": b"", "bee/text.jpg": b"no picture",
                  "bee/flipped.png": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:]}
        for name, data in broken.items():
            with open(self.path("photos", name), "wb") as file:
                file.write(data)
        result = self.run_program("import", "photos", "--output", "photos.h5")
        self.check_refused(result, "4 of 54 images", "--broken skip", *broken)
        self.assertFalse(os.path.exists(self.path("photos.h5")))
        out = self.succeed_json("import", "photos", "--output", "photos.h5", "--broken", "skip", "--test-fraction", "0")
        self.assertEqual((out["train_images"], out["test_images"]), (50, 0))
        for name in broken:
            self.assertEqual(sum(name in message for message in out["broken"]), 1, out["broken"])
        values, labels = read_set(self.path("photos.h5"), "train")
        self.assertEqual((values.shape, np.bincount(labels).tolist()), ((50, 8, 8, 3), [30, 20]))

    def test_refusals(self):
        write_classes(self.path("photos"), {"ant": 3})
        os.makedirs(self.path("hollow", "ant"))
        write_classes(self.path("half", "train"), {"ant": 3})
        write_classes(self.path("new", "train"), {"ant": 3})
        write_classes(self.path("new", "test"), {"bee": 3})
        write_png(self.path("loose", "a.png"), np.zeros((2, 2), np.uint8))
        self.write("taken.h5", "mine")
        self.refuse("import", "hollow", "--output", "x.h5", words=["hollow/ant", "class folder without images"], ranks=0)
        self.refuse("import", "nowhere", "--output", "x.h5", words=["nowhere", "no such folder"], ranks=0)
        self.refuse("import", "half", "--output", "x.h5", words=["half", "train", "none called test"], ranks=0)
        self.refuse("import", "new", "--output", "x.h5", words=["bee", "none for training"], ranks=0)
        self.refuse("import", "loose", "--output", "x.h5", words=["a.png", "outside a class folder"], ranks=0)
        self.refuse("import", "photos", "--output", "taken.h5", words=["taken.h5", "--overwrite"], ranks=0)
        self.refuse("import", "photos", "--output", "x.h5", "--size", "3", words=["--size", "HEIGHTxWIDTH"], ranks=0)
        self.refuse("import", "photos", "--output", "nowhere/x.h5", words=["nowhere/x.h5.partial"], ranks=0)

    def write_many(self, of_class):
        self.of_class = of_class
        write_classes(self.path("many"), {"ant": of_class, "bee": of_class}, shape=(256, 256, 3))

    def interrupt(self, signal_number):
        """Sends the signal after an import's first tenth, with more images where it ended before: its status and errors."""
        while self.of_class < 2000:
            process = subprocess.Popen([PROGRAM, "import", "many", "--output", "many.h5", "--threads", "1"],
                                       cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
            self.assertIn(f"of {2 * self.of_class} images", process.stdout.readline())
            process.send_signal(signal_number)
            _, err = process.communicate(timeout=60)
            if process.returncode != 0:
                return process.returncode, err
            os.remove(self.path("many.h5"))
            self.write_many(2 * self.of_class)
        return self.fail("every import ended before its signal")

    def test_goes_on_where_it_was_stopped(self):
        self.write_many(120)
        for signal_number in (signal.SIGINT, signal.SIGKILL):
            status, err = self.interrupt(signal_number)
            if signal_number == signal.SIGINT:
                self.assertEqual(status, 1, err)
                self.assertIn("many.h5: stopped; many.h5.partial keeps what is done", err)
            else:
                self.assertEqual(status, -signal.SIGKILL)
            self.assertFalse(os.path.exists(self.path("many.h5")))
            self.succeed("import", "many", "--output", "whole.h5", "--overwrite")
            out = self.succeed_json("import", "many", "--output", "many.h5")
            self.assertGreater(out["resumed"], 0)
            self.assertFalse(out["restarted"])
            for split in ("train", "test"):
                for first, second in zip(read_set(self.path("many.h5"), split), read_set(self.path("whole.h5"), split)):
                    self.assert_same_bits(first, second, split)
            os.remove(self.path("many.h5"))
        self.assertEqual(self.interrupt(signal.SIGKILL)[0], -signal.SIGKILL)
        write_png(self.path("many", "bee", "new.png"), np.zeros((256, 256, 3), np.uint8))
        out = self.succeed_json("import", "many", "--output", "many.h5")
        self.assertTrue(out["restarted"])
        self.assertEqual((out["resumed"], out["train_images"] + out["test_images"]), (0, 2 * self.of_class + 1))
        self.assertEqual([name for name in contents(self.folder) if name.endswith(".partial")], [])

    def test_cifar_and_idx(self):
        random = np.random.default_rng(4)
        os.makedirs(self.path("cifar"))
        planes, labels = {}, {}
        for name, count in [(f"data_batch_{i}", 4) for i in range(1, 6)] + [("test_batch", 6)]:
            planes[name] = random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
            labels[name] = random.integers(0, 10, count, dtype=np.uint8)
            with open(self.path("cifar", name + ".bin"), "wb") as file:
                for plane, label in zip(planes[name], labels[name]):
                    file.write(bytes([label]) + plane.tobytes())
        out = self.succeed_json("import", "cifar", "--output", "cifar.h5")
        self.assertEqual((out["train_images"], out["test_images"], out["shape"]), (20, 6, [32, 32, 3]))
        self.assertEqual(out["class_names"], [str(i) for i in range(10)])
        for split, names in (("train", [f"data_batch_{i}" for i in range(1, 6)]), ("test", ["test_batch"])):
            expected = []
            for name in names:
                expected += as_keys(planes[name].transpose(0, 2, 3, 1), labels[name])
            self.assertEqual(as_keys(*read_set(self.path("cifar.h5"), split)), sorted(expected))
        os.makedirs(self.path("mnist"))
        images = random.integers(0, 256, (12, 6, 5), dtype=np.uint8)
        for name, part in (("train", slice(0, 9)), ("t10k", slice(9, 12))):
            count = len(images[part])
            with open(self.path("mnist", f"{name}-images-idx3-ubyte"), "wb") as file:
                file.write(np.array([0x803, count, 6, 5], ">i4").tobytes() + images[part].tobytes())
            with open(self.path("mnist", f"{name}-labels-idx1-ubyte"), "wb") as file:
                file.write(np.array([0x801, count], ">i4").tobytes() + (np.arange(count) % 3).astype(np.uint8).tobytes())
        self.succeed("import", "mnist", "--output", "mnist.h5")
        values, found = read_set(self.path("mnist.h5"), "test")
        self.assertEqual((values[..., 0].tobytes(), found.tolist()), (images[9:].tobytes(), [0, 1, 2]))


if __name__ == "__main__":
    main()
