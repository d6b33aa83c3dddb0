#!/usr/bin/env python3
"""One training step of the networks whose step is short against PyTorch."""

from program import main
from torch_step import TorchStepTest


class TorchStep(TorchStepTest):
    def test_lenet5(self):
        self.check("lenet5")

    def test_resnet20(self):
        self.check("resnet20")

    def test_unet2d(self):
        self.check("unet2d")

    def test_ffn3d(self):
        self.check("ffn3d")

    def test_cosmoflow(self):
        self.check("cosmoflow")


if __name__ == "__main__":
    main()
