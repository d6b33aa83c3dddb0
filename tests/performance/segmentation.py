#!/usr/bin/env python3
"""How well objects are found in volumes: adapted Rand error and variation of information of a threshold with connected
components, and of a file of objects, on the test volumes of inputs/make_neurites.py.

    segmentation.py TRUTH.h5 [FOUND.h5] [--thresholds 30]

TRUTH.h5 has /train and /test with images (N, D, H, W, 1) uint8 and objects (N, D, H, W), 0: no object. FOUND.h5 has
/objects (N, D, H, W), unsigned, 0: no object, for the test volumes. Prints a row per way: means over the test volumes, and
how many objects were found in all of them. The threshold is the one with the least adapted Rand error on the training
volumes; components have neighbours across faces, and those of fewer than 100 voxels are dropped.

Only voxels that belong to an object of the truth count, in all scores.

* Adapted Rand error: 1 - 2 P R / (P + R). Of all pairs of voxels that are in one found object, P is the share that are in
  one true object as well; R is the share of pairs of one true object that are in one found object. Voxels that no object
  was found for are objects of one voxel each. This is the error of SNEMI3D (Arganda-Carreras et al., 2015), as in
  adapted_rand_error of cremi/cremi_python (cremi/evaluation/rand.py); skimage.metrics.adapted_rand_error counts the same
  pairs, but takes voxels without a found object for one object.
* Variation of information (Meila, 2007), split: H(found | truth), and merge: H(truth | found), in bits. Voxels that no
  object was found for are one object, as in cremi/evaluation/voi.py and skimage.metrics.variation_of_information with
  ignore_labels=(0,).
"""

import argparse
import os
import sys

import h5py
import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs"))
from make_neurites import by_size, components  # noqa: E402

SMALLEST_OBJECT = 100  # voxels


def overlaps(truth, found):
    """The overlaps of true and found objects, without voxels that are 0 in the truth: the true object, the found object and
    the number of voxels of each pair that has any."""
    truth, found = truth[truth != 0].astype(np.int64), found[truth != 0].astype(np.int64)
    base = found.max(initial=0) + 1
    pairs, voxels = np.unique(truth * base + found, return_counts=True)
    return pairs // base, pairs % base, voxels


def per_object(objects, voxels):
    """The number of voxels of each overlap's object."""
    _, index = np.unique(objects, return_inverse=True)
    return np.bincount(index, weights=voxels)[index]


def adapted_rand_error(truth, found):
    """1 - F-score of pairs of voxels, see above; labels of equal extents."""
    true_objects, found_objects, voxels = overlaps(truth, found)

    def pairs(objects, counted):
        sums = np.bincount(objects[counted], weights=voxels[counted])
        return np.sum(sums * (sums - 1))

    labelled = found_objects != 0
    together = np.sum((voxels * (voxels - 1.0))[labelled])
    in_either = pairs(true_objects, np.full(len(voxels), True)) + pairs(found_objects, labelled)
    return 1 - 2 * together / in_either if in_either else 0.0


def variation_of_information(truth, found):
    """(split, merge) in bits, see above; labels of equal extents."""
    true_objects, found_objects, voxels = overlaps(truth, found)
    share = voxels / max(voxels.sum(), 1)
    return tuple(np.sum(share * np.log2(per_object(objects, voxels) / voxels)) for objects in (true_objects, found_objects))


def threshold_and_components(image, threshold):
    """The objects of an image (D, H, W): components of what is at least as bright as the threshold."""
    return by_size(components(image >= threshold), SMALLEST_OBJECT)


def best_threshold(images, objects, number):
    """Of `number` thresholds between the 1st and the 99th percentile the one with the least mean adapted Rand error."""
    thresholds = np.unique(np.rint(np.linspace(*np.percentile(images, (1, 99)), number)))
    errors = [np.mean([adapted_rand_error(truth, threshold_and_components(image, threshold))
                       for image, truth in zip(images, objects)]) for threshold in thresholds]
    return thresholds[np.argmin(errors)]


def count(volumes):
    """The number of objects in all volumes; each volume has labels of its own."""
    return sum(np.count_nonzero(np.unique(volume)) for volume in volumes)


def row(name, objects, found):
    errors = [(adapted_rand_error(*each), *variation_of_information(*each)) for each in zip(objects, found)]
    rand, split, merge = np.mean(errors, axis=0)
    return f"| {name} | {rand:.3f} | {split:.2f} | {merge:.2f} | {count(found)} |"


def read_objects(path, name):
    """A dataset of objects (N, D, H, W); ends the program with one message where there is none."""
    try:
        with h5py.File(path, "r") as file:
            objects = file[name][()]
    except (OSError, KeyError) as error:
        raise SystemExit(f"{path}: /{name} cannot be read: {error}") from error
    if objects.ndim != 4 or objects.dtype.kind != "u" or not len(objects):
        raise SystemExit(f"{path}: /{name} is {objects.dtype} {objects.shape}; expected unsigned integers (N, D, H, W)")
    return objects


def read_split(path, split):
    """Images and objects, both (N, D, H, W), of a file of volumes; ends the program where they do not fit each other."""
    objects = read_objects(path, f"{split}/objects")
    with h5py.File(path, "r") as file:
        shape = file[f"{split}/images"].shape if f"{split}/images" in file else None
        if shape != (*objects.shape, 1):
            raise SystemExit(f"{path}: /{split}/images is {shape}; expected {(*objects.shape, 1)}")
        return file[f"{split}/images"][..., 0], objects


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", metavar="TRUTH.h5")
    parser.add_argument("found", metavar="FOUND.h5", nargs="?")
    parser.add_argument("--thresholds", type=int, default=30, help="how many are tried")
    arguments = parser.parse_args()
    if arguments.thresholds < 1:
        parser.error(f"--thresholds {arguments.thresholds}: expected at least 1")
    images, objects = read_split(arguments.truth, "test")
    found = read_objects(arguments.found, "objects") if arguments.found else None
    if found is not None and found.shape != objects.shape:
        raise SystemExit(f"{arguments.found}: /objects is {found.shape}; expected {objects.shape}, as {arguments.truth} has")

    threshold = best_threshold(*read_split(arguments.truth, "train"), arguments.thresholds)
    print(f"test volumes: {len(objects)}, objects in them: {count(objects)}, threshold: {threshold:.0f}\n")
    print("| way | adapted Rand error | VI split, bits | VI merge, bits | objects |\n|---" + "|---" * 4 + "|", flush=True)
    print(row("threshold and components", objects, [threshold_and_components(image, threshold) for image in images]))
    if found is not None:
        print(row("flood filling", objects, found))


if __name__ == "__main__":
    main()
