#!/usr/bin/env python3
"""Writes golden_optimizer.hpp: parameters after each of six steps of PyTorch's optimizers, in double.

    python3 tests/kernels/golden_optimizer.py > tests/kernels/golden_optimizer.hpp
"""
import torch

START = [0.5, -1.25, 2.0, 0.0, -0.003, 40.0, 1e-4]
STEPS = 6

CASES = [
    ("sgd", torch.optim.SGD, dict(lr=0.05)),
    ("sgd_decay", torch.optim.SGD, dict(lr=0.05, weight_decay=0.01)),
    ("sgd_momentum", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=1e-4)),
    ("sgd_nesterov", torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)),
    ("adam", torch.optim.Adam, dict(lr=0.01)),
    ("adam_decay", torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("adamw", torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    ("adagrad", torch.optim.Adagrad, dict(lr=0.1)),
    ("adagrad_decay", torch.optim.Adagrad, dict(lr=0.1, eps=1e-6, weight_decay=0.05)),
]


def numbers(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


def main():
    generator = torch.Generator().manual_seed(7)
    gradients = torch.randn(STEPS, len(START), generator=generator, dtype=torch.float64)
    gradients[:, 3] = 0  # a parameter that never gets a gradient
    gradients[0, 4] = 0  # one that gets its first in the second step
    print("#pragma once\n")
    print(f"// Written by golden_optimizer.py with PyTorch {torch.__version__.split('+')[0]}.\n")
    print("namespace halograd::golden {\n")
    print(f"constexpr int steps = {STEPS};\nconstexpr int length = {len(START)};")
    print(f"// clang-format off\nconst double start[length] = {numbers(START)};")
    print("const double gradients[steps][length] = {")
    for row in gradients:
        print(f"    {numbers(row)},")
    print("};")
    for name, optimizer_class, options in CASES:
        x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
        optimizer = optimizer_class([x], **options)
        print(f"const double {name}[steps][length] = {{  // {options}")
        for row in gradients:
            x.grad = row.clone()
            optimizer.step()
            print(f"    {numbers(x.detach())},")
        print("};")
    print("// clang-format on\n\n}  // namespace halograd::golden")


main()
