#!/usr/bin/env python3
"""Images that are missing, cut short or wrong, in each format: refused with file and offset, on all ranks, in time."""

import gzip
import os
import shutil
import struct

import h5py
import numpy as np

from program import INPUTS, SYNTHETIC, ProgramTest, main, sets


class DataTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.data = self.path("data")
        os.mkdir(self.data)
        self.random = np.random.default_rng(1)

    def file(self, name):
        return os.path.join(self.data, name)

    def put(self, name, content):
        with open(self.file(name), "wb") as file:
            file.write(content)

    def cut(self, name, size):
        with open(self.file(name), "r+b") as file:
            file.truncate(size)

    def patch(self, name, offset, content):
        with open(self.file(name), "r+b") as file:
            file.seek(offset)
            file.write(content)

    def words(self, form, path=None):
        return ["train", SYNTHETIC, *sets(data__format=form, data__path=path or self.data, training__epochs=1)]

    def refuse_data(self, form, *words, path=None):
        self.refuse(*self.words(form, path), words=words)
        self.assertFalse(os.path.exists(self.path("runs")))


class Idx(DataTest):
    ending = ""

    def setUp(self):
        super().setUp()
        for split, count in (("train", 60), ("t10k", 20)):
            images = self.random.integers(0, 256, (count, 8, 8), np.uint8)
            labels = np.arange(count, dtype=np.uint8) % 4
            self.put_idx(f"{split}-images-idx3-ubyte", struct.pack(">4i", 0x803, count, 8, 8) + images.tobytes())
            self.put_idx(f"{split}-labels-idx1-ubyte", struct.pack(">2i", 0x801, count) + labels.tobytes())

    def put_idx(self, name, content):
        self.put(name, content)

    def test_whole_files_are_taken(self):
        """The control: the others are refused for what is done to these."""
        self.succeed(*self.words("idx"), "--check", ranks=2)

    def test_cut_short(self):
        name = "train-images-idx3-ubyte"
        self.cut(name, 16 + 59 * 64 + 10)
        self.refuse_data("idx", self.file(name), "truncated", "3840 bytes", "offset 16", str(16 + 59 * 64 + 10))
        self.cut(name, 10)
        self.refuse_data("idx", self.file(name), "truncated", "offset 8", "4 bytes", "2")

    def test_labels(self):
        name = "t10k-labels-idx1-ubyte"
        self.patch(name, 8 + 7, b"\x09")
        self.refuse_data("idx", self.file(name), "label at offset 15 is 9", "0..3")
        self.patch("train-labels-idx1-ubyte", 8 + 30, b"\xc8")
        self.refuse_data("idx", self.file("train-labels-idx1-ubyte"), "label at offset 38 is 200")

    def test_other_magic_number(self):
        name = "train-labels-idx1-ubyte"
        self.patch(name, 0, struct.pack(">i", 0x803))
        self.refuse_data("idx", self.file(name), "magic number at offset 0 is 2051", "expected 2049")

    def test_fewer_labels_than_images(self):
        name = "train-labels-idx1-ubyte"
        self.patch(name, 4, struct.pack(">i", 59))
        self.cut(name, 8 + 59)
        self.refuse_data("idx", "train-images-idx3-ubyte", name, "60 images", "59")

    def test_missing(self):
        os.remove(self.file("t10k-labels-idx1-ubyte"))
        self.refuse_data("idx", self.file("t10k-labels-idx1-ubyte"), "no such file")
        self.refuse_data("idx", self.path("nowhere"), "no such folder", path=self.path("nowhere"))


class Gzip(Idx):
    """The same files compressed. Offsets are those of what they hold."""

    def put_idx(self, name, content):
        self.put(f"{name}.gz", gzip.compress(content))

    def file(self, name):
        return super().file(name if name.endswith(".gz") or "ubyte" not in name else f"{name}.gz")

    def change(self, name, action):
        with gzip.open(self.file(name)) as file:
            content = bytearray(file.read())
        action(content)
        super().put(name, gzip.compress(bytes(content)))

    def cut(self, name, size):
        self.change(name, lambda content: content.__delitem__(slice(size, None)))

    def patch(self, name, offset, content):
        self.change(name, lambda old: old.__setitem__(slice(offset, offset + len(content)), content))

    def test_cut_short(self):
        name = "train-images-idx3-ubyte"
        self.cut(name, 16 + 59 * 64 + 10)
        self.refuse_data("idx", self.file(name), "truncated", "3840 bytes", "offset 16", str(59 * 64 + 10))

    def test_stream_cut_short(self):
        name = "train-images-idx3-ubyte"
        with open(self.file(name), "r+b") as file:
            file.truncate(os.path.getsize(file.name) * 2 // 3)
        self.refuse_data("idx", self.file(name), "gzip stream is truncated", "decompressed bytes")

    def test_damaged(self):
        name = "train-images-idx3-ubyte"
        with open(self.file(name), "r+b") as file:
            file.seek(os.path.getsize(file.name) - 8)
            file.write(b"\0\0\0\0")  # the checksum
        self.refuse_data("idx", self.file(name), "decompressed bytes")

    def test_no_gzip(self):
        super().put("train-images-idx3-ubyte", b"words, not gzip")
        self.refuse_data("idx", self.file("train-images-idx3-ubyte"), "is not a gzip file")

    def test_missing(self):
        os.remove(self.file("t10k-labels-idx1-ubyte"))
        self.refuse_data("idx", "t10k-labels-idx1-ubyte", "no such file")


class Cifar(DataTest):
    def setUp(self):
        super().setUp()
        self.records = self.random.integers(0, 256, (4, 3073), np.uint8)
        self.records[:, 0] = [0, 1, 9, 5]
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            self.put(name, self.records.tobytes())

    def words(self, form, path=None):
        return [*super().words(form, path), *sets(training__batch=6), "--set", "network.layer=[{type=\"flatten\"}, "
                "{type=\"dense\", channels=10}]"]

    def test_whole_files_are_taken(self):
        self.succeed(*self.words("cifar10"), ranks=2)

    def test_cut_short(self):
        self.cut("data_batch_3.bin", 4 * 3073 - 100)
        self.refuse_data("cifar10", self.file("data_batch_3.bin"), str(4 * 3073 - 100), "3073", f"offset {3 * 3073}")
        self.cut("data_batch_3.bin", 0)
        self.refuse_data("cifar10", self.file("data_batch_3.bin"), "0 bytes")

    def test_labels(self):
        self.patch("test_batch.bin", 2 * 3073, b"\x0a")
        self.refuse_data("cifar10", self.file("test_batch.bin"), f"label at offset {2 * 3073} is 10", "0..9")

    def test_missing(self):
        os.remove(self.file("data_batch_5.bin"))
        self.refuse_data("cifar10", self.file("data_batch_5.bin"), "no such file")
        self.refuse_data("cifar100", self.file("train.bin"), "no such file")
        self.refuse_data("cifar10", self.path("nowhere"), "no such folder", path=self.path("nowhere"))


class Hdf5(DataTest):
    def setUp(self):
        super().setUp()
        self.digits = self.file("digits.h5")
        shutil.copy(os.path.join(INPUTS, "digits.h5"), self.digits)

    def refuse_digits(self, *words):
        self.refuse_data("hdf5", self.digits, *words, path=self.digits)

    def test_cut_short(self):
        size = os.path.getsize(self.digits)
        for kept in (size - 1000, size // 2, 100, 0):
            self.cut("digits.h5", kept)
            self.refuse_digits(f"{kept} bytes")

    def test_labels(self):
        with h5py.File(self.digits, "r+") as file:
            file["test/labels"][17] = 10
        self.refuse_digits("/test/labels", "index 17 is 10", "0..9")

    def test_other_datasets(self):
        with h5py.File(self.digits, "r+") as file:
            file.move("test/images", "test/pictures")
        self.refuse_digits("/test/images", "no such dataset")
        with h5py.File(self.digits, "r+") as file:
            file["test/images"] = file["test/pictures"][:, :, 0, 0]
        self.refuse_digits("/test/images", "2 dimensions", "expected 4 (N,H,W,C)")
        with h5py.File(self.digits, "r+") as file:
            del file["test/images"]
            file["test/images"] = file["test/pictures"][:, :, :, 0]
        self.refuse_digits("training images have shape 8x8x1", "test images 8x8 ")
        with h5py.File(self.digits, "r+") as file:
            del file["test/images"]
            file["test/images"] = file["test/pictures"][:-1]
        self.refuse_digits("/test/images", "358 images", "359")
        with h5py.File(self.digits, "r+") as file:
            del file["test/images"]
            file["test/images"] = np.zeros((359, 9, 9, 1), np.uint8)
        self.refuse_digits("training images have shape 8x8x1 and 10 classes", "test images 9x9x1 and 10;")

    def test_missing(self):
        os.remove(self.digits)
        self.refuse_digits("no such file")
        self.refuse_data("hdf5", self.data, "not a file", path=self.data)


class Objects(DataTest):
    def setUp(self):
        super().setUp()
        self.volumes = self.file("volumes.h5")
        with h5py.File(self.volumes, "w") as file:
            for split in ("train", "test"):
                file[f"{split}/images"] = self.random.integers(0, 256, (2, 32, 32, 1), np.uint8)
                file[f"{split}/objects"] = np.ones((2, 32, 32), np.int64)

    def refuse_volumes(self, *words):
        self.refuse_data("objects", self.volumes, *words, path=self.volumes)

    def test_cut_short(self):
        for kept in (os.path.getsize(self.volumes) // 2, 0):
            self.cut("volumes.h5", kept)
            self.refuse_volumes(f"{kept} bytes")

    def test_numbers(self):
        with h5py.File(self.volumes, "r+") as file:
            file["test/objects"][1, 2, 3] = -1
        self.refuse_volumes("/test/objects", "object number -1", "0..4294967295")
        with h5py.File(self.volumes, "r+") as file:
            file["test/objects"][()] = 0
        self.refuse_volumes("/test/objects", "no object that a field of 24x24x1")


if __name__ == "__main__":
    main()
