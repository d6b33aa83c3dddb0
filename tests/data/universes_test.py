#!/usr/bin/env python3
"""inputs/make_universes.py: what its file holds, and that its volumes have the spectra that their labels stand for.

The Gaussian field is taken back out of a volume: the logarithm of the density, but for its mean. Its spectrum is held against
formulas that are written down here once more. The Fourier coefficients of a real field of N cells, but for the mean, are worth
N - 1 real numbers, and the squares of these, over what the spectrum says, have the mean 1 and the variance 2: a mean over M
coefficients (k and -k both counted) has the standard deviation sqrt(2 / M). Nothing may be off by more than 4 or 5 of them.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
import unittest

import h5py
import numpy as np

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "inputs")
RANGES = {"omega_m": (0.2, 0.4), "sigma_8": (0.7, 0.95), "n": (0.85, 1.1), "h": (0.55, 0.85)}
REDSHIFTS = (0.0, 0.5, 1.5, 3.0)
CELL = 4.0  # Mpc/h
TRAIN, TEST, SIZE = 64, 8, 32


def make(*words):
    return subprocess.run([sys.executable, os.path.join(INPUTS, "make_universes.py"), *words], capture_output=True, text=True,
                          timeout=300, check=False)


def parameters(labels):
    """By name, from labels between -1 and 1."""
    return {name: low + (label + 1) / 2 * (high - low) for (name, (low, high)), label in zip(RANGES.items(), labels)}


def window(x):
    """The Fourier transform of a sphere; x: wave number times radius."""
    return 3 * (np.sin(x) / x - np.cos(x)) / x**2


def integral(values, at):
    return np.sum((values[1:] + values[:-1]) / 2 * np.diff(at))


def spectrum(omega_m, sigma_8, n, h):
    """A function: P(k), (Mpc/h)^3, for k in h/Mpc."""
    def unscaled(k):
        q = k * h / (omega_m * h**2)
        polynomial = 1 + 3.89 * q + (16.1 * q)**2 + (5.46 * q)**3 + (6.71 * q)**4
        return k**n * (np.log(1 + 2.34 * q) / (2.34 * q))**2 / np.sqrt(polynomial)
    logarithms = np.linspace(np.log(1e-5), np.log(100), 100001)
    k = np.exp(logarithms)
    variance = integral(k**3 * unscaled(k) * window(8 * k)**2 / (2 * np.pi**2), logarithms)
    return lambda k: sigma_8**2 / variance * unscaled(k)


def growth(redshift, omega_m):
    """In a flat universe, over that at redshift 0: the integral (Heath, 1977) that the script has an approximation of."""
    def unscaled(z):
        a = np.linspace(1e-6, 1 / (1 + z), 100001)
        hubble = lambda scale: np.sqrt(omega_m / scale**3 + 1 - omega_m)
        return hubble(a[-1]) * integral((a * hubble(a))**-3, a)
    return unscaled(redshift) / unscaled(0.0)


def gaussian(volume):
    """(size, size, size): the field that a channel was made of."""
    logarithm = np.log(np.expm1(volume.astype(np.float64)))
    return logarithm - logarithm.mean()


def wave_numbers(size):
    """Without the first, which is 0."""
    frequencies = 2 * np.pi * np.fft.fftfreq(size, CELL)
    return np.sqrt(frequencies[:, None, None]**2 + frequencies[:, None]**2 + frequencies**2).ravel()[1:]


def coefficients(volume):
    """Of the field at redshift 0, so that their squares have the spectrum as their mean."""
    return np.fft.fftn(gaussian(volume[..., 0])).ravel()[1:] * np.sqrt(CELL**3 / volume[..., 0].size)


class Universes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = cls.make_file("universes.h5")
        with h5py.File(cls.file) as file:
            cls.images, cls.labels = file["train/images"][()], file["train/labels"][()]
        cls.k = wave_numbers(SIZE)
        squares = np.array([np.abs(coefficients(volume))**2 for volume in cls.images])
        cls.expected = np.array([spectrum(**parameters(labels))(cls.k) for labels in cls.labels])
        cls.ratios = squares / cls.expected
        cls.one = np.sqrt(2 / cls.k.size)  # standard deviation of a volume's mean ratio

    @classmethod
    def make_file(cls, name, *words, train=TRAIN, test=TEST):
        path = os.path.join(cls.folder.name, name)
        result = make(path, "--train", str(train), "--test", str(test), *words)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        return path

    def slopes(self, ratios):
        """By how much n seems to differ from the label, volume by volume, in standard deviations; and how large one is."""
        distances = np.log(self.k) - np.log(self.k).mean()
        deviation = np.sqrt(2 / np.sum(distances**2))
        return (ratios - 1) @ distances / np.sum(distances**2) / deviation, deviation

    def test_layout(self):
        with h5py.File(self.file) as file:
            for split, count in (("train", TRAIN), ("test", TEST)):
                images, labels = file[f"{split}/images"], file[f"{split}/labels"]
                self.assertEqual((images.shape, images.dtype), ((count, SIZE, SIZE, SIZE, 4), np.float32))
                self.assertEqual((labels.shape, labels.dtype), ((count, 4), np.float32))
                self.assertEqual(list(labels.attrs["parameters"]), list(RANGES))

    def test_labels_are_uniform_and_independent(self):
        with h5py.File(self.file) as file:
            labels = np.concatenate([file["train/labels"], file["test/labels"]])
        self.assertLessEqual(np.abs(labels).max(), 1)
        self.assertTrue((labels.min(0) < -0.8).all() and (labels.max(0) > 0.8).all(), labels)
        deviations = np.sqrt(np.array([1 / 3, 4 / 45]) / len(labels))  # of the mean, and of the mean square, which is 1/3
        self.assertLess(np.abs(labels.mean(0)).max(), 4 * deviations[0])
        self.assertLess(np.abs((labels**2).mean(0) - 1 / 3).max(), 4 * deviations[1])
        self.assertLess(np.abs(np.corrcoef(labels.T) - np.eye(4)).max(), 4 / np.sqrt(len(labels)))

    def test_sigma_8_is_the_label(self):
        # 32767 coefficients per volume: 0.4 % of sigma_8 is one standard deviation
        self.assertLess(np.abs(self.ratios.mean(1) - 1).max(), 5 * self.one)
        self.assertLess(np.abs(self.ratios.mean() - 1), 4 * self.one / np.sqrt(TRAIN))

    def test_spectral_index_is_the_label(self):
        slopes, deviation = self.slopes(self.ratios)
        self.assertLess(deviation, 0.03)  # the labels' range is 0.25
        self.assertLess(np.abs(slopes).max(), 5)
        self.assertLess(np.abs(slopes.mean()), 4 / np.sqrt(TRAIN))

    def test_spectrum_has_its_shape(self):
        shells = np.digitize(self.k, np.geomspace(self.k.min(), self.k.max(), 9)[1:-1])
        for shell in range(8):  # 18 coefficients per volume in the first, thousands in the last
            ratios = self.ratios[:, shells == shell]
            self.assertLess(np.abs(ratios.mean() - 1), 4 * np.sqrt(2 / ratios.size), f"shell {shell} of {ratios.size}")

    def test_labels_of_another_volume_are_seen(self):
        ratios = self.ratios * self.expected / np.roll(self.expected, 1, axis=0)
        self.assertGreater(np.median(np.abs(ratios.mean(1) - 1)) / self.one, 10)
        self.assertGreater(np.median(np.abs(self.slopes(ratios)[0])), 3)

    def test_fields_are_gaussian(self):
        values = SIZE**3 * len(self.images)
        white = np.array([coefficients(volume) for volume in self.images]) / np.sqrt(self.expected)
        white = np.insert(white, 0, 0, axis=1).reshape(-1, SIZE, SIZE, SIZE)
        white = np.fft.ifftn(white, axes=(1, 2, 3)).real * np.sqrt(SIZE**3)
        self.assertLess(np.abs((white**3).mean()), 4 * np.sqrt(15 / values))
        self.assertLess(np.abs((white**4).mean() - 3), 4 * np.sqrt(96 / values))

    def test_density_is_log_normal_about_one(self):
        for volume in self.images:
            for channel in range(4):
                logarithm = np.log(np.expm1(volume[..., channel].astype(np.float64)))
                self.assertAlmostEqual(logarithm.mean(), -np.var(logarithm) / 2, 5)

    def test_channels_have_grown_alike(self):
        for volume, labels in zip(self.images, self.labels):
            field = gaussian(volume[..., 0])
            for channel, redshift in enumerate(REDSHIFTS):
                grown = gaussian(volume[..., channel])
                factor = np.vdot(grown, field) / np.vdot(field, field)
                self.assertLess(np.abs(grown - factor * field).max(), 2e-5)
                expected = growth(redshift, parameters(labels)["omega_m"])
                self.assertLess(np.abs(factor / expected - 1), 0.01)  # what the approximation leaves

    def test_spheres_of_8_mpc_vary_by_sigma_8(self):
        with h5py.File(self.make_file("large.h5", "--size", "128", train=1, test=1)) as file:
            volume, values = file["train/images"][0], parameters(file["train/labels"][0])
        k = wave_numbers(128)
        weights = window(8 * k)**2 / (128 * CELL)**3
        measured = np.sum(np.abs(coefficients(volume))**2 * weights)
        # modes longer than the box and shorter than two cells are missing; the others are random
        parts = spectrum(**values)(k) * weights
        self.assertLess(np.abs(parts.sum() / values["sigma_8"]**2 - 1), 0.02)
        deviation = np.sqrt(2 * np.sum(parts**2)) / parts.sum()
        self.assertLess(deviation, 0.03)
        self.assertLess(np.abs(measured / values["sigma_8"]**2 - 1), 0.02 + 4 * deviation)

    def test_run_file_brings_them_to_one_scale(self):
        with open(os.path.join(INPUTS, "cosmoflow.toml"), "rb") as file:
            data = tomllib.load(file)["data"]
        pixels = self.images.reshape(-1, 4).astype(np.float64)
        np.testing.assert_allclose(pixels.mean(0), data["mean"], atol=0.02)
        np.testing.assert_allclose(10 * pixels.std(0), data["standard_deviation"], atol=0.2)

    def test_a_second_run_writes_the_same_bytes(self):
        few = {"train": 3, "test": 2}
        with open(self.make_file("a.h5", **few), "rb") as first, open(self.make_file("b.h5", **few), "rb") as second:
            self.assertTrue(first.read() == second.read())
        with h5py.File(self.make_file("c.h5", "--seed", "2", **few)) as other, h5py.File(self.make_file("a.h5", **few)) as file:
            for name in ("train/images", "train/labels", "test/images", "test/labels"):
                self.assertFalse(np.isclose(file[name], other[name]).all(), name)

    def test_no_volume_is_there_twice(self):
        with h5py.File(self.file) as file:
            labels = np.concatenate([file["train/labels"], file["test/labels"]])
            images = np.concatenate([file["train/images"][:, 0, 0], file["test/images"][:, 0, 0]])
        self.assertEqual(len(np.unique(labels, axis=0)), TRAIN + TEST)
        self.assertEqual(len(np.unique(images.reshape(TRAIN + TEST, -1), axis=0)), TRAIN + TEST)

    def test_options_that_cannot_be(self):
        bad = os.path.join(self.folder.name, "bad.h5")
        for words, message in ((["--size", "48"], "--size 48: expected a multiple of 32"),
                               (["--size", "0"], "--size 0: expected a multiple of 32"),
                               (["--train", "0"], "--train 0: expected at least 1"),
                               (["--test", "-1"], "--test -1: expected at least 1"),
                               (["--seed", "-1"], "--seed -1: expected at least 0"),
                               (["--size", "many"], "--size: invalid int value: 'many'")):
            result = make(bad, *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(message, result.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(bad))
        result = make(os.path.join(self.folder.name, "nowhere", "bad.h5"))
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
        self.assertIn("bad.h5: ", result.stderr)


if __name__ == "__main__":
    unittest.main()
