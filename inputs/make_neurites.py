#!/usr/bin/env python3
"""Makes neurites.h5: volumes like those of electron microscopy, filled with touching neurites, and the object of each voxel.

    python3 inputs/make_neurites.py [neurites.h5] [--train 2] [--test 1] [--size 96] [--tubes N] [--noise 0.06] [--seed 1]

A neurite is a tube around a random walk whose direction changes smoothly. It branches, its radius and brightness vary along
its length, and it tends to run along its neighbours. A dark membrane about one voxel thick lies between two that touch. Small
patches of the membranes are so pale that a threshold merges what they separate. The image is smoothed, and noise is added.
Objects are connected components of neurites (voxels are neighbours across faces), numbered 1, 2, ... in each volume from the
largest to the smallest; membranes, pale or not, and what lies between neurites are 0. Such volumes stand in for those that
flood-filling networks (Januszewski et al., 2018) are trained on. A second run writes the same bytes. Needs numpy and h5py.
See docs/data.md for the layout.
"""

import argparse

import h5py
import numpy as np

RADII = (3.0, 7.0)  # voxels, of tubes before they vary
SMALLEST_RADIUS = 2.0
STEP = 1.0  # voxels between the points of a walk
CANDIDATES = 16  # directions that a walk chooses from
BEND = 0.16  # standard deviation of each component of a change of direction
SQUEEZE = 0.35  # share of its radius by which a tube may be pressed in
AHEAD = 3.0  # voxels that a walk looks ahead for room
REACH = 6  # voxels from a surface up to which distances are known
BRANCHES = 0.010  # per step
FILLED = 0.66  # share of the voxels in tubes, membranes included, where their number is not given
MOST_TUBES = 4  # for every 12^3 voxels
GROWTH = 1.3  # voxels by which all tubes grow in the end, into one another: touching surfaces become flat
SMALLEST_EXTENT = 16  # voxels
SMALLEST_OBJECT = 300  # voxels
MEMBRANE = 1.0  # voxels between two tubes, and half of it at a surface that nothing touches, that belong to no object

BACKGROUND, CYTOPLASM, DARK = 0.36, (0.50, 0.74), 0.12  # brightness; 1 is white
PALE_SHARE = 0.03  # of the membranes
PALE_RAMP = 0.2  # standard deviations of the field between pale and dark
PALE_EXTENT = 1.8  # voxels, of a pale patch: the standard deviation of its blur
BLUR = 0.55  # voxels

ATTRIBUTES = {
    "title": "Generated neurites",
    "description": "volumes like those of electron microscopy, filled with touching tubes that branch; objects: 0 for "
                   "membranes and what lies between tubes; 1, 2, ... in each volume for tubes",
    "made_by": "inputs/make_neurites.py",
}


def smoothed(values, deviation):
    """Convolved with a Gaussian along each axis; edges are continued."""
    radius = int(np.ceil(3 * deviation))
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / deviation)**2)
    weights = (weights / weights.sum()).astype(np.float32)
    for axis, extent in enumerate(values.shape):
        padded = np.pad(values, [(radius, radius) if i == axis else (0, 0) for i in range(values.ndim)], mode="edge")
        values = sum(weight * np.take(padded, range(i, i + extent), axis=axis) for i, weight in enumerate(weights))
    return values


def components(mask):
    """The connected components of a mask of any number of axes: voxels are neighbours across faces. Returns int32 labels of
    the mask's extents, 0 outside it and 1, 2, ... in the order of the components' first voxels."""
    numbers = np.cumsum(mask.ravel(), dtype=np.int32).reshape(mask.shape) - 1  # of voxels in the mask
    pairs = []
    for axis in range(mask.ndim):
        before, after = (np.moveaxis(mask, axis, 0)[part] for part in (np.s_[:-1], np.s_[1:]))
        both = before & after
        pairs.append([np.moveaxis(numbers, axis, 0)[part][both] for part in (np.s_[:-1], np.s_[1:])])
    first, second = (np.concatenate(each) for each in zip(*pairs))
    parent = np.arange(np.count_nonzero(mask), dtype=np.int32)
    while first.size:  # of two roots that touch, the larger goes below the smaller; then all point to their roots
        parent[np.maximum(first, second)] = np.minimum(first, second)
        while True:
            grandparent = parent[parent]
            if np.array_equal(grandparent, parent):
                break
            parent = grandparent
        first, second = parent[first], parent[second]
        apart = first != second
        first, second = first[apart], second[apart]
    roots = parent == np.arange(parent.size)
    labels = np.zeros(mask.shape, np.int32)
    labels[mask] = np.cumsum(roots, dtype=np.int32)[parent]
    return labels


def by_size(labels, smallest):
    """The same labels, numbered from the largest object to the smallest; those of fewer voxels become 0."""
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] >= max(smallest, 1)]
    numbers = np.zeros(sizes.size, labels.dtype)
    numbers[order] = np.arange(1, order.size + 1)
    return numbers[labels]


class Space:
    """A volume that tubes are put into: for each voxel the distances from the surfaces of the nearest tube and of the second
    nearest, in voxels (negative: inside), and the brightness of the nearest."""

    def __init__(self, extents):
        self.extents = np.array(extents)
        self.nearest = np.full(extents, REACH, np.float32)
        self.second = np.full(extents, REACH, np.float32)
        self.brightness = np.zeros(extents, np.float32)

    def contains(self, points):
        return ((points >= 0) & (points <= self.extents - 1)).all(axis=-1)

    def room(self, points):
        """The distance from the nearest tube for each point; points outside count as those at the edge."""
        return self.nearest[tuple(np.clip(np.rint(points), 0, self.extents - 1).astype(int).T)]

    def add(self, points, radii, brightness):
        """A tube: balls of these radii around points, each with its brightness."""
        low = np.maximum(np.floor((points - radii[:, None]).min(axis=0)).astype(int) - REACH, 0)
        high = np.minimum(np.ceil((points + radii[:, None]).max(axis=0)).astype(int) + REACH + 1, self.extents)
        distance = np.full(high - low, REACH, np.float32)
        shade = np.zeros(high - low, np.float32)
        for point, radius, value in zip(points - low, radii, brightness):
            begin = np.maximum(np.floor(point - radius - REACH).astype(int), 0)
            end = np.maximum(np.minimum(np.ceil(point + radius + REACH).astype(int) + 1, distance.shape), begin)
            box = tuple(slice(*each) for each in zip(begin, end))
            z, y, x = (np.square(np.arange(*each, dtype=np.float32) - at) for *each, at in zip(begin, end, point))
            here = np.sqrt(z[:, None, None] + y[:, None] + x) - np.float32(radius)
            nearer = here < distance[box]
            distance[box][nearer] = here[nearer]
            shade[box][nearer] = value
        box = tuple(slice(*each) for each in zip(low, high))
        nearest, second = self.nearest[box], self.second[box]
        first = distance < nearest
        second[...] = np.where(first, nearest, np.minimum(second, distance))
        nearest[first] = distance[first]
        self.brightness[box][first] = shade[first]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def walk(random, space, start, direction, radius, others):
    """A branch from `start` until it leaves the space or has no room: points (n, 3) and radii (n). It keeps clear of the
    points `others` (m, 4: with radii) of its own neurite."""
    points, radii = [], []
    point, swelling = start, 0.0
    while len(points) < 4 * space.extents.max():
        swelling = 0.93 * swelling + 0.10 * random.standard_normal()
        wanted = radius * np.exp(swelling)
        tries = unit(direction + BEND * random.standard_normal((CANDIDATES, 3)))
        room = np.minimum(space.room(point + STEP * tries), space.room(point + AHEAD * tries) + 0.5)
        if len(others):
            gaps = np.linalg.norm((point + AHEAD * tries)[:, None] - others[:, :3], axis=2) - others[:, 3]
            room = np.minimum(room, gaps.min(axis=1))
        # close to a neighbour, but not too close, and rather straight on
        merit = -np.abs(room / wanted - 0.95) + 2.0 * tries @ direction - 4.0 * (room < wanted * (1 - SQUEEZE))
        best = np.argmax(merit)
        if room[best] < SMALLEST_RADIUS * (1 - SQUEEZE):
            break
        direction = tries[best]
        point = point + STEP * direction
        if not space.contains(point + wanted * -direction):
            break
        points.append(point)
        limit = min(wanted, room[best] / (1 - SQUEEZE))
        radii.append(limit if not radii else np.clip(limit, radii[-1] - 0.3, radii[-1] + 0.3))
    return np.array(points).reshape(-1, 3), np.array(radii)


def neurite(random, space):
    """A neurite through the emptiest of some places: points (n, 3), radii (n) and brightness (n); n = 0 if there is no
    room."""
    places = random.uniform(0, space.extents - 1, (48, 3))
    start = places[np.argmax(space.room(places))]
    radius = random.uniform(*RADII)
    if space.room(start[None])[0] < SMALLEST_RADIUS:
        return np.zeros((0, 3)), np.zeros(0), np.zeros(0)
    direction = unit(random.standard_normal(3))
    none = np.zeros((0, 4))
    ways = [walk(random, space, start, way, radius, none) for way in (direction, -direction)]
    points, radii = (np.concatenate([a[::-1], b]) for a, b in zip(*ways))
    for at in np.flatnonzero(random.random(len(points)) < BRANCHES):
        along = points[min(at + 1, len(points) - 1)] - points[max(at - 1, 0)]
        away = unit(np.cross(along, random.standard_normal(3)))
        away = unit(away + random.uniform(-0.7, 0.7) * unit(along)) if along.any() else away
        known = np.column_stack([points, radii])
        far = np.linalg.norm(points - points[at], axis=1) > 3 * radii[at] + AHEAD
        more, their_radii = walk(random, space, points[at], away, random.uniform(0.6, 0.9) * radii[at], known[far])
        if len(more) > 2 * radii[at]:
            points, radii = np.concatenate([points, more]), np.concatenate([radii, their_radii])
    level = random.uniform(*CYTOPLASM)
    waves = np.sin(points @ random.normal(0, 0.07, (3, 3)) + random.uniform(0, 2 * np.pi, 3)).sum(axis=1)
    return points, radii, level + 0.03 * waves


def volume(random, extents, tubes, noise):
    """An image (D, H, W) uint8 and its objects (D, H, W) uint32; tubes = 0: as many as fill the volume to FILLED."""
    space = Space(extents)
    for _ in range(tubes or MOST_TUBES * int(np.prod(extents)) // 12**3):
        if not tubes and np.mean(space.nearest < GROWTH) >= FILLED:
            break
        points, radii, brightness = neurite(random, space)
        if len(points) > 3:
            space.add(points, radii, brightness)
    space.nearest -= GROWTH
    space.second -= GROWTH
    between = 0.5 * (space.second - space.nearest)  # distance from the surface halfway between two tubes
    inside = np.minimum(-space.nearest, between) > MEMBRANE / 2
    # Voxels of two tubes are never neighbours: from one to the next the difference of two distances changes by 2 at most.
    objects = by_size(components(inside), SMALLEST_OBJECT)

    strength = smoothed(random.standard_normal(extents, np.float32), PALE_EXTENT)
    strength = np.clip((strength - np.quantile(strength, PALE_SHARE)) / (PALE_RAMP * strength.std()), 0, 1)
    depth = np.minimum(np.abs(space.nearest), np.where(space.second < 1, between, np.inf))
    kept = (objects > 0) | ~inside
    cytoplasm = np.clip(0.5 - space.nearest, 0, 1) * kept
    texture = smoothed(random.standard_normal(extents, np.float32), 1.5)
    image = BACKGROUND + (space.brightness - BACKGROUND) * cytoplasm
    image += 0.025 / texture.std() * texture
    membrane = np.clip(1.1 - depth, 0, 1) * strength * kept
    image += (DARK - image) * membrane
    image = smoothed(image.astype(np.float32), BLUR) + noise * random.standard_normal(extents, np.float32)
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8), objects.astype(np.uint32)


def write(arguments):
    with h5py.File(arguments.output, "w") as file:
        for name, value in ATTRIBUTES.items():
            file.attrs[name] = value
        for name in ("seed", "tubes", "noise"):
            file.attrs[name] = getattr(arguments, name)
        for number, (split, count) in enumerate((("train", arguments.train), ("test", arguments.test))):
            extents = (count, *arguments.size)
            images = file.create_dataset(f"{split}/images", (*extents, 1), np.uint8, chunks=(1, *arguments.size, 1))
            objects = file.create_dataset(f"{split}/objects", extents, np.uint32, chunks=(1, *arguments.size))
            images.attrs["layout"], objects.attrs["layout"] = "N, D, H, W, C", "N, D, H, W"
            for i in range(count):  # each volume has a seed of its own: more volumes leave the others as they are
                random = np.random.default_rng((arguments.seed, number, i))
                images[i, ..., 0], objects[i] = volume(random, arguments.size, arguments.tubes, arguments.noise)


def extents_of(text):
    words = text.split("x")
    if len(words) not in (1, 3) or not all(word.isdecimal() and int(word) >= SMALLEST_EXTENT for word in words):
        raise argparse.ArgumentTypeError(f"'{text}': expected one extent or DEPTHxHEIGHTxWIDTH, each at least "
                                         f"{SMALLEST_EXTENT}")
    return tuple(int(word) for word in words) * (3 // len(words))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", default="neurites.h5")
    parser.add_argument("--train", type=int, default=2, help="volumes for training")
    parser.add_argument("--test", type=int, default=1, help="volumes for testing")
    parser.add_argument("--size", type=extents_of, default="96", help="extent of a volume in voxels, or DEPTHxHEIGHTxWIDTH")
    parser.add_argument("--tubes", type=int, default=0, help="in each volume (0: until objects fill about half of it)")
    parser.add_argument("--noise", type=float, default=0.06, help="standard deviation; 1 is the range from black to white")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name, least in (("train", 1), ("test", 1), ("tubes", 0), ("noise", 0), ("seed", 0)):
        value = getattr(arguments, name)
        if not value >= least:
            parser.error(f"--{name} {value}: expected at least {least}")
    try:
        write(arguments)
    except OSError as error:
        raise SystemExit(f"{arguments.output}: {error}") from error


if __name__ == "__main__":
    main()
