#!/usr/bin/env python3
"""What Winograd's tiles cost in accuracy if they multiply bf16 values, or integers with a scale for each row and column: the
error of the outputs of a 3x3 convolution, root mean square, in per cent of the outputs' own.

    winograd_rounding.py [channels]

Inputs are bf16 values, as a network stores them; what is rounded is the weights (direct), or inputs and weights once they
are transformed. A second figure is for inputs that went through a ReLU, a third for inputs of which one in twenty is eight
times as large.
"""

import sys

import numpy as np

FILTERS, TILES = 16, 200
TILE_POINTS = {"F(2x2, 3x3)": (0, 1, -1), "F(4x4, 3x3), points 1 and 2": (0, 1, -1, 2, -2),
               "F(4x4, 3x3), points 2/3 and 3/2": (0, 2 / 3, -2 / 3, 3 / 2, -3 / 2)}
INTEGER_DEPTH = 128  # as in kernels/host/integer_panel.hpp
INPUTS = {"normal": lambda values, generator: values, "after ReLU": lambda values, generator: np.maximum(values, 0),
          "few large": lambda values, generator: np.where(generator.random(values.shape) < 0.05, 8, 1) * values}


def rounded(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + ((bits >> 16) & 1) + 0x7fff) & 0xffff0000).view(np.float32).astype(float)


def transforms(points, kernel):
    """A^T, G and B^T of the minimal filtering with these points and infinity (Lavin and Gray, 2016)."""
    size = len(points) + 1
    outputs = size - kernel + 1
    powers = np.array([[float(point)**i for point in points] for i in range(max(outputs, kernel))])
    to_outputs, of_kernel = np.zeros((outputs, size)), np.zeros((size, kernel))
    to_outputs[:, :-1], to_outputs[-1, -1] = powers[:outputs], 1
    scale = [np.prod([a - b for b in points if b != a]) for a in points]
    of_kernel[:-1], of_kernel[-1, -1] = (powers[:kernel] / scale).T, 1
    # output i is the sum over k of input i + k with kernel value k: linear equations for B^T
    products = (to_outputs[:, None, :] * of_kernel.T[None, :, :]).reshape(-1, size)
    wanted = np.array([[float(l == i + k) for l in range(size)] for i in range(outputs) for k in range(kernel)])
    return to_outputs, of_kernel, np.linalg.lstsq(products, wanted, rcond=None)[0]


def in_integers(values):
    """Axis 1 is the depth."""
    limit = np.floor(np.sqrt((2**31 - 1) / min(values.shape[1], INTEGER_DEPTH)))
    scale = np.abs(values).max(axis=1, keepdims=True) / limit
    return np.rint(values / scale) * scale


def errors(points, channels, change, kernel=3):
    """Of the direct sum, and of Winograd's with bf16 values and with integers."""
    to_outputs, of_kernel, of_inputs = transforms(points, kernel)
    size, outputs = of_inputs.shape[0], to_outputs.shape[0]
    generator = np.random.default_rng(1)
    x = rounded(change(generator.standard_normal((TILES, channels, size, size)), generator))
    weights = generator.standard_normal((FILTERS, channels, kernel, kernel))
    inputs = np.einsum("ai,tcij,bj->tcab", of_inputs, x, of_inputs)
    kernels = np.einsum("ai,kcij,bj->kcab", of_kernel, weights, of_kernel)

    def winograd(left, right):
        return np.einsum("ia,tkab,jb->tkij", to_outputs, np.einsum("tcab,kcab->tkab", left, right), to_outputs)

    def direct(values):
        patches = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
        return np.einsum("tcijab,kcab->tkij", patches, values)

    exact = direct(weights)
    assert exact.shape[-1] == outputs and np.allclose(winograd(inputs, kernels), exact)

    def error(found):
        return 100 * np.sqrt(np.mean((found - exact)**2) / np.mean(exact**2))

    return [error(found) for found in (direct(rounded(weights)), winograd(rounded(inputs), rounded(kernels)),
                                       winograd(in_integers(inputs), in_integers(kernels)))]


def main():
    channels = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    print("| tile | products | " + " | ".join(INPUTS) + " |\n|---|---|" + "---|" * len(INPUTS))
    for name, points in TILE_POINTS.items():
        by_input = [errors(points, channels, change) for change in INPUTS.values()]
        for which, products in enumerate(("direct, bf16", "bf16", "integers")):
            print(f"| {name} | {products} | " + " | ".join(f"{each[which]:.2f} %" for each in by_input) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
