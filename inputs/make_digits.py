#!/usr/bin/env python3
"""Makes digits.h5, the small real data set of the first minute and of the tests.

Needs scikit-learn, which carries the images, and h5py (Debian: python3-sklearn, python3-h5py):
    python3 inputs/make_digits.py [digits.h5]
A second run writes the same bytes. See docs/file-formats.md for the layout.
"""

import os
import sys

import h5py
import numpy as np
from sklearn.datasets import load_digits

SEED = 1998
TEST_SHARE = 0.2

ATTRIBUTION = {
    "title": "Optical Recognition of Handwritten Digits (test part)",
    "authors": "E. Alpaydin and C. Kaynak, Bogazici University, 1998",
    "source": "UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/80, as carried by scikit-learn (load_digits)",
    "license": "none stated in the set itself; the UCI repository is understood to publish its sets under CC BY 4.0",
    "description": "1797 images of handwritten digits, 8 x 8 pixels of values 0 to 16, 10 classes",
    "made_by": "inputs/make_digits.py",
}


def split(labels):
    """Test and training indices, both in the order of the source; every class gives the same share to the test."""
    random = np.random.RandomState(SEED)  # its stream is frozen across versions of numpy
    test = []
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        test.extend(random.permutation(members)[: round(TEST_SHARE * len(members))])
    test = np.sort(np.array(test))
    return np.setdiff1d(np.arange(len(labels)), test), test


def write(path):
    digits = load_digits()
    images = digits.images.astype(np.uint8)[..., np.newaxis]
    labels = digits.target.astype(np.uint8)
    assert images.shape == (1797, 8, 8, 1) and images.max() == 16 and (images == digits.images[..., None]).all()
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, text in ATTRIBUTION.items():
            file.attrs[name] = text
        file.attrs["split"] = (
            f"fixed, stratified: {TEST_SHARE:.0%} of each class, by a permutation seeded with {SEED}, are the test set; "
            "`index` holds the positions in the source"
        )
        for name, chosen in zip(("train", "test"), split(labels)):
            group = file.create_group(name)
            options = {"compression": "gzip", "compression_opts": 9, "track_times": False}
            stored = group.create_dataset("images", data=images[chosen], chunks=(len(chosen), 8, 8, 1), **options)
            stored.attrs["maximum"] = np.int32(16)
            stored.attrs["layout"] = "N, H, W, C"
            group.create_dataset("labels", data=labels[chosen], **options).attrs["classes"] = np.int32(10)
            group.create_dataset("index", data=chosen.astype(np.int32), **options)


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.h5"))
