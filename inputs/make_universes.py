#!/usr/bin/env python3
"""Makes universes.h5: volumes of matter and the four parameters that each was drawn with, for inputs/cosmoflow.toml.

    python3 inputs/make_universes.py [universes.h5] [--size 32] [--train 512] [--test 64] [--seed 1]

A volume is a Gaussian random field with a cold dark matter spectrum, P(k) ~ k^n T(k)^2 with the transfer function T of
Bardeen, Bond, Kaiser and Szalay (1986, equation G3), made log-normal (Coles and Jones, 1991). Its four channels are the
density at redshifts 0, 0.5, 1.5 and 3, by the growth factor of Carroll, Press and Turner (1992, equation 29). The labels,
Omega_M, sigma_8, n and h, are scaled to -1..1, as MLPerf HPC has them. A second run writes the same bytes. Needs numpy and
h5py. See docs/file-formats.md, "Images", for the layout.
"""

import argparse

import h5py
import numpy as np

PARAMETERS = {"omega_m": (0.2, 0.4), "sigma_8": (0.7, 0.95), "n": (0.85, 1.1), "h": (0.55, 0.85)}
REDSHIFTS = (0.0, 0.5, 1.5, 3.0)
CELL = 4.0  # Mpc/h


def spectrum(k, n, shape):
    """P(k) without its amplitude; `shape`: Omega_M h."""
    q = np.maximum(k, 1e-8) / shape
    transfer = np.log1p(2.34 * q) / (2.34 * q) * (1 + 3.89 * q + (16.1 * q)**2 + (5.46 * q)**3 + (6.71 * q)**4)**-0.25
    return k**n * transfer**2


def amplitude(sigma_8, n, shape):
    """The factor that makes the density in spheres of 8 Mpc/h vary by sigma_8."""
    k = np.geomspace(1e-4, 20, 4000)
    x = 8 * k
    window = 3 * (np.sin(x) - x * np.cos(x)) / x**3
    integrand = spectrum(k, n, shape) * window**2 * k**2 / (2 * np.pi**2)
    return sigma_8**2 / np.sum(0.5 * (integrand[1:] + integrand[:-1]) * np.diff(k))


def growth(redshift, omega_m):
    """Of density differences in a flat universe, 1 at redshift 0."""
    def unscaled(z):
        square = omega_m * (1 + z)**3 + 1 - omega_m
        matter, vacuum = omega_m * (1 + z)**3 / square, (1 - omega_m) / square
        return 2.5 * matter / (1 + z) / (matter**(4 / 7) - vacuum + (1 + matter / 2) * (1 + vacuum / 70))
    return unscaled(redshift) / unscaled(0.0)


def universe(random, size, omega_m, sigma_8, n, h):
    """(size, size, size, redshifts): log(1 + density / mean density)."""
    frequencies = 2 * np.pi * np.fft.fftfreq(size, CELL)
    half = 2 * np.pi * np.fft.rfftfreq(size, CELL)
    k = np.sqrt(frequencies[:, None, None]**2 + frequencies[None, :, None]**2 + half**2)
    power = amplitude(sigma_8, n, omega_m * h) * spectrum(k, n, omega_m * h)
    power[0, 0, 0] = 0  # the mean is that of all universes
    noise = np.fft.rfftn(random.standard_normal((size, size, size)))
    field = np.fft.irfftn(noise * np.sqrt(power / CELL**3), s=(size, size, size), axes=(0, 1, 2))
    factors = np.array([growth(z, omega_m) for z in REDSHIFTS])
    grown = field[..., None] * factors
    return np.log1p(np.exp(grown - np.var(field) * factors**2 / 2)).astype(np.float32)


def write(arguments):
    random = np.random.default_rng(arguments.seed)
    low, high = np.array(list(PARAMETERS.values())).T
    with h5py.File(arguments.output, "w") as file:
        for split, count in (("train", arguments.train), ("test", arguments.test)):
            extents = (arguments.size,) * 3 + (len(REDSHIFTS),)
            images = file.create_dataset(f"{split}/images", (count, *extents), np.float32, chunks=(1, *extents))
            labels = random.uniform(-1, 1, (count, len(PARAMETERS)))
            for i, label in enumerate(labels):
                images[i] = universe(random, arguments.size, *(low + (label + 1) / 2 * (high - low)))
            file[f"{split}/labels"] = labels.astype(np.float32)
            file[f"{split}/labels"].attrs["parameters"] = list(PARAMETERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", default="universes.h5")
    parser.add_argument("--size", type=int, default=32, help="cells along each axis of a volume, a multiple of 32")
    parser.add_argument("--train", type=int, default=512, help="volumes for training")
    parser.add_argument("--test", type=int, default=64, help="volumes for testing")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.size < 32 or arguments.size % 32:
        parser.error(f"--size {arguments.size}: expected a multiple of 32, which the network halves five times")
    for name, least in (("train", 1), ("test", 1), ("seed", 0)):
        value = getattr(arguments, name)
        if value < least:
            parser.error(f"--{name} {value}: expected at least {least}")
    try:
        write(arguments)
    except OSError as error:
        raise SystemExit(f"{arguments.output}: {error}") from error


if __name__ == "__main__":
    main()
