"""Image files for the tests beside this file, written by hand: no image library need be there."""

import os
import struct
import zlib

import numpy as np


def png_bytes(image, depth=8):
    """A PNG file of an array (H, W), (H, W, 3) or (H, W, 4) of uint8 (or uint16 with depth 16)."""
    image = np.ascontiguousarray(image)
    colour_type = {2: 0, 3: {3: 2, 4: 6}.get(image.shape[-1])}[image.ndim]
    height, width = image.shape[:2]
    rows = image.astype(">u2" if depth == 16 else np.uint8).reshape(height, -1).view(np.uint8)
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows])

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines.tobytes(), 1)) +
            part(b"IEND", b""))


def write_png(path, image):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(png_bytes(image))


def write_classes(folder, counts, shape=(8, 8, 3), seed=0):
    """folder/<class>/<number>.png with random values; {path from the folder: image}."""
    random = np.random.default_rng(seed)
    images = {}
    for name, count in counts.items():
        for number in range(count):
            image = random.integers(0, 256, shape, dtype=np.uint8)
            path = os.path.join(name, f"{number:04}.png")
            write_png(os.path.join(folder, path), image)
            images[path] = image
    return images
