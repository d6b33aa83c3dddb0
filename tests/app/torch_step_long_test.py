#!/usr/bin/env python3
"""One training step of the larger networks against PyTorch."""

from program import main
from torch_step import TorchStepTest


class TorchStep(TorchStepTest):
    def test_vgg_small(self):
        self.check("vgg_small")

    def test_resnet18(self):
        self.check("resnet18")

    def test_resnet50(self):
        self.check("resnet50")

    def test_mobilenet_v2(self):
        self.check("mobilenet_v2")


if __name__ == "__main__":
    main()
