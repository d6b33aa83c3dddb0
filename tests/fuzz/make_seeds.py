#!/usr/bin/env python3
"""Makes the seeds in corpus/: small whole files of every format that halograd reads.

    python3 tests/fuzz/make_seeds.py     (Debian: python3-h5py)

Datasets in HDF5 files may grow along all axes, so that hdf5_mutator.cpp can change their extents where they are.
"""

import base64
import gzip
import io
import os
import struct
import zlib

import h5py
import numpy as np

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(target, name, content, kind="seed"):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{kind}_{name}"), "wb") as file:
        file.write(content)


def put_hdf5(target, name, fill, kind="seed", **options):
    memory = io.BytesIO()
    with h5py.File(memory, "w", libver=("v110", "v110"), meta_block_size=512) as file:
        fill(file, **options)
    put(target, name, memory.getvalue(), kind)


def crc32(values):
    return np.array([zlib.crc32(row.tobytes()) for row in values], dtype=np.uint32)


def growing(shape, **storage):
    return {"chunks": shape, "maxshape": (None,) * len(shape), **storage}


def small(shape, dtype="f4"):
    """Values that are all different and exact."""
    return (np.arange(np.prod(shape)).reshape(shape) / 4).astype(dtype)


RUN = """name = "seed"
[training]
batch = 4
epochs = 1
[data]
format = "synthetic"
synthetic_shape = [4, 4, 1]
mean = [0.5]
[network]
[[network.layer]]
type = "conv"
channels = 2
kernel = [3, 3]
padding = 1
[[network.layer]]
type = "relu"
[[network.layer]]
name = "skip"
type = "conv"
channels = 2
kernel = 1
inputs = ["conv1"]
[[network.layer]]
type = "add"
inputs = ["relu1", "skip"]
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 10
[optimizer]
momentum = 0.9
nesterov = true
[schedule]
name = "step"
milestones = [1, 2]
[averager]
name = "neighbour"
order = "adapt_then_combine"
[topology]
kind = "ring"
"""
NAMED = 'name = "n"\ndata = { path = "x/y", format = "idx" } # comment\nnetwork.name = "lenet5"\n[output]\nfolder = \'r\'\n'

EDGES = "ranks = 4\n" + "".join(
    f"[[edge]]\nfrom = {i}\nto = {(i + step) % 4}\n%s" for i in range(4) for step in (1, 3))
CLUSTER = "nodes = 4\nranks_per_node = 2\nlatency_us = 1.5\nbandwidth_gb = 12.5\nmemory_gb = 64\nspread = 0.1\nslowest = 2\n"


def idx(values, magic):
    return struct.pack(f">{1 + values.ndim}I", magic, *values.shape) + values.astype(np.uint8).tobytes()


def idx_files(pack=lambda content: content):
    labels = pack(idx(np.array([0, 1, 2]), 0x801))
    return struct.pack("<H", len(labels)) + labels + pack(idx(np.arange(12).reshape(3, 2, 2), 0x803))


def png(values, colour, depth=8, palette=b""):
    """Rows of bytes as PNG."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = values.shape[0], values.shape[1] * (8 // depth if depth < 8 else 1)
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
            + (chunk(b"PLTE", palette) if palette else b"") + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# 8 x 8 pixels in grey, written by Pillow.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H////6/+b9"
    "//j/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABcQAAMBAAAAAAAAAAAAAAAAAAACBGH/2gAIAQEAAD8ABYMP/9k=")

SAFETENSORS = (b'{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},'
               b'"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"c":{"dtype":"F64","shape":[1],"data_offsets":[16,24]}}')


def state_dictionary(file):
    file.attrs["format"] = "halograd state dictionary"
    file.attrs["format_version"] = 1
    file["conv1.weight"] = small((2, 1, 1, 1))
    file["conv1.num_batches_tracked"] = np.int64(3)


def images(file, labels, pixels=np.uint8, **storage):
    for group, count in (("train", 3), ("test", 2)):
        file.create_dataset(f"{group}/images", data=small((count, 2, 2, 1), pixels), **growing((count, 2, 2, 1), **storage))
        file.create_dataset(f"{group}/labels", data=labels(count), **growing(labels(count).shape))
        file[f"{group}/labels"].attrs["classes"] = 3


def objects(file):
    for group, count in (("train", 3), ("test", 2)):
        file.create_dataset(f"{group}/images", data=small((count, 3, 3, 1), np.uint8), **growing((count, 3, 3, 1)))
        file.create_dataset(f"{group}/objects", data=np.arange(count * 9).reshape(count, 3, 3) % 4, **growing((count, 3, 3)))


def stopped_import(file):
    file.attrs["import_identity"] = "seed"
    file.create_dataset("import_state", data=np.array([2, 1, 1, 1]), **growing((4,)))
    for group, count in (("train", 3), ("test", 2)):
        file.create_dataset(f"{group}/images", data=small((count, 2, 2, 1), np.uint8), **growing((count, 2, 2, 1)))
        file.create_dataset(f"{group}/labels", data=np.arange(count, dtype=np.int32), **growing((count,)))


def cached_block():
    source, values = b"halograd data cache 1\nstate\n", bytes(range(8))
    return struct.pack("<H", len(source)) + source + values + b"haloblk1" + struct.pack("<QQ", len(values), zlib.crc32(values))


def checkpoint(file, ranks=2):
    values = {"format": "halograd checkpoint", "format_version": 2, "step": 3, "epoch": 1, "step_in_epoch": 1, "ranks": ranks,
              "network": "n", "averager": "neighbour", "topology": "ring", "config": 'name = "n"', "versions": "0",
              "input": "2x2x1", "metric": "accuracy", "mean_model_accuracy": 0.5, "mean_model_loss": 1.0}
    for name, value in values.items():
        file.attrs[name] = value

    def add(name, rows, **storage):
        file.create_dataset(name, data=rows, **growing(rows.shape, **storage)).attrs["crc32"] = crc32(rows)

    add("replica/parameters", small((ranks, 3)))
    add("replica/optimizer", small((ranks, 1, 3)), chunks=(1, 1, 3), shuffle=True, compression=1)
    add("replica/statistics", small((ranks, 2)))
    add("replica/epoch_sums", small((ranks, 4), "f8"))
    add("replica/averager/clock", small((ranks, 1), "i8"))
    for name, kind, offset, count in (("dense1/weight", "parameter", 0, 3), ("norm1/mean", "statistic", 0, 2)):
        add("mean/" + name, small((1, count)).reshape(count))
        file["mean/" + name].attrs["crc32"] = crc32(small((1, count)))
        file["mean/" + name].attrs["kind"] = kind
        file["mean/" + name].attrs["offset"] = offset


STEPS = ("loss learning_rate images_per_second wait_seconds compute_seconds update_seconds data_seconds progress_seconds "
         "bytes_sent skipped averaging_period samples rank").split()
EPOCHS = "train_loss test_loss test_accuracy images evaluation_seconds wait_seconds".split()
RUNS = "mean_model_loss mean_model_accuracy consensus_distance seconds steps".split()
EDGE = "epoch from to halos skipped left_out bytes delay_seconds least_delay_seconds wait_seconds".split()


def metrics(file):
    file.attrs["format"] = "halograd metrics"
    file.attrs["format_version"] = 1
    file.attrs["ranks"] = 2
    file.attrs["metric"] = "accuracy"
    for group, names, shape in (("step", STEPS, (4, 2)), ("epoch", EPOCHS, (2, 2)), ("epoch", RUNS, (2,)),
                                ("edge", EDGE, (2,)), ("edge", ["staleness"], (2, 8))):
        for name in names:
            values = np.ones(shape)
            if name == "rank":
                values = np.tile([0.0, 1.0], (4, 1))
            elif name == "steps":
                values = np.array([2.0, 4.0])
            file.create_dataset(f"{group}/{name}", data=values, **growing(shape))


def packed(shape, dtype="f4"):
    """Zeros, which deflate to a thousandth."""
    return {"data": np.zeros(shape, dtype), "compression": 9, "chunks": shape}


def linked_tensors(file):
    state_dictionary(file)
    file.create_dataset("packed", **packed((1000000,)))
    for number in range(40):
        file[f"{number}"] = file["packed"]


def many_ranks(file):
    checkpoint(file)
    crc = file["replica/parameters"].attrs["crc32"]
    for name in ("parameters", "optimizer", "statistics", "epoch_sums", "averager"):
        del file["replica/" + name]
    file.create_dataset("replica/parameters", **packed((1500000, 1))).attrs["crc32"] = crc


def long_import_state(file):
    stopped_import(file)
    del file["import_state"]
    file["import_state"] = np.zeros(64, "i8")


def import_without_pixels(file):
    stopped_import(file)
    del file["train/images"]
    file.create_dataset("train/images", (3, 2, 0, 1), "u1")


def linked_states(file):
    checkpoint(file, ranks=1)
    file.create_dataset("packed", **packed((1, 4000000))).attrs["crc32"] = crc32(np.zeros((1, 4000000), "f4"))
    for number in range(40):
        file[f"replica/averager/{number}"] = file["packed"]


def put_cases():
    """What readers once failed on, where it is easier said than kept."""
    put_hdf5("import", "state", long_import_state, kind="case")
    put_hdf5("import", "pixels", import_without_pixels, kind="case")
    put_hdf5("copy", "links", linked_states, kind="case")
    put_hdf5("state_dict", "links", linked_tensors, kind="case")
    put_hdf5("checkpoint", "ranks", many_ranks, kind="case")
    put("topology", "brackets", b"a = " + b"[" * 10000, "case")
    put("cluster", "tables", b"a = " + b"{a = " * 6000, "case")
    put("run", "dots", b"a." * 5000 + b"a = 1", "case")
    put("cluster", "no_utf8", b"'" + b"\xbb" * 68 + b"'b\x7f= ", "case")
    put("topology", "no_utf8", b"a = " + b"'" * 63 + b"\xff'''", "case")

    def header(text, values=0):
        return struct.pack("<Q", len(text)) + text + bytes(values)

    put("safetensors", "depth", header(b'{"a":{"dtype":"F32","shape":' + b'{"a":' * 6000 + b"1" + b"}" * 6002), "case")
    put("safetensors", "number", header(b'{"a":1e999}'), "case")
    names = b",".join(b'"%d":{"dtype":"I64","shape":[512],"data_offsets":[0,4096]}' % i for i in range(100))
    put("safetensors", "shared", header(b"{" + names + b"}", 4096), "case")
    large = bytearray(png(small((4, 4), np.uint8), 0))
    large[16:24] = struct.pack(">II", 40000, 40000)
    large[29:33] = struct.pack(">I", zlib.crc32(large[12:29]))
    put("image", "large.png", bytes(large), "case")


def main():
    put("run", "layers", RUN.encode())
    put("run", "named", NAMED.encode())
    put("topology", "weights", (EDGES % (("weight = 0.25\n",) * 8)).encode())
    put("topology", "none", (EDGES % (("",) * 8)).encode())
    put("cluster", "all", CLUSTER.encode())
    put("idx", "plain", idx_files())
    put("idx", "gzip", idx_files(lambda content: gzip.compress(content, mtime=0)))
    record = small((3074,), np.uint8).tobytes()
    put("cifar", "10", b"\x03" + record[:3072])
    put("cifar", "100", b"\x03\x04" + record[:3072])
    grey = small((4, 4), np.uint8)
    put("image", "grey.png", png(grey, 0))
    put("image", "bits.png", png(grey[:, :1], 3, 1, b"\0\0\0\xff\0\xff"))
    put("image", "alpha.png", png(small((2, 8), np.uint8).reshape(2, 2, 4), 6))
    put("image", "grey.jpg", JPEG)
    put("safetensors", "types", struct.pack("<Q", len(SAFETENSORS)) + SAFETENSORS + bytes(24))
    put_hdf5("state_dict", "tensors", state_dictionary)
    put_hdf5("dataset", "classes", images, labels=lambda count: np.arange(count, dtype=np.int32))
    put_hdf5("dataset", "chunks", images, labels=lambda count: np.arange(count) % 2, chunks=(1, 2, 2, 1), compression=1)
    put_hdf5("dataset", "pixels", images, labels=lambda count: np.ones((count, 2, 2), np.uint8), pixels=np.float32)
    put_hdf5("dataset", "targets", images, labels=lambda count: small((count, 2)))
    put_hdf5("dataset", "objects", objects)
    put_hdf5("import", "stopped", stopped_import)
    put("cache", "block", cached_block())
    put_hdf5("checkpoint", "all", checkpoint)
    put_hdf5("copy", "all", checkpoint, ranks=1)
    put("copies_name", "plain", b"halograd-0123456789abcdef\n")
    put_hdf5("metrics", "all", metrics)
    put_cases()


if __name__ == "__main__":
    main()
