#!/usr/bin/env python3
"""training.precision on cores: bf16 where cores have it, with the promises of fp32."""

import unittest

import numpy as np

from program import CORES_HAVE_BF16, ON_DEVICES, ProgramTest, main, read_metrics, read_replicas, sets

# Layers that gain by bf16 in all three passes (kernels/host/conv_bf16.cpp), and some that do not.
RUN_FILE = """
[training]
epochs = 3
batch = 32

[data]
format = "synthetic"
synthetic_train = 512
synthetic_test = 128
synthetic_shape = [16, 16, 3]
synthetic_classes = 4

[network]
name = "wide"
layer = [
  {type = "conv", channels = 64, kernel = 3, padding = 1},
  {type = "batch_norm"},
  {type = "relu"},
  {type = "conv", channels = 96, kernel = 3, padding = 1, stride = 2},
  {type = "relu"},
  {type = "conv", channels = 64, kernel = 3, padding = 1},
  {type = "global_avg_pool"},
  {type = "dense", channels = 4}
]

[optimizer]
name = "sgd"
learning_rate = 0.02
momentum = 0.9
"""


@unittest.skipIf(ON_DEVICES, "devices have tests of their own (tests/device.sh)")
class Precision(ProgramTest):
    def train(self, name, precision, *words, ranks=2):
        self.succeed("train", self.write("run.toml", RUN_FILE), *sets(name=name, training__precision=precision), *words,
                     ranks=ranks)
        return read_replicas(self.path("runs", name, "checkpoint.h5"))["parameters"][0]

    @unittest.skipUnless(CORES_HAVE_BF16, "cores have no bf16")
    def test_bf16_trains_as_well_with_the_same_bits(self):
        full, gold = self.train("full", "fp32"), self.train("gold", "bf16")
        self.assertFalse(np.array_equal(full, gold), "bf16 computed nothing")
        losses = {name: read_metrics(self.path("runs", name, "metrics.h5"))["epoch/train_loss"] for name in ("full", "gold")}
        self.assertLess(losses["gold"][-1].mean(), 0.5 * losses["gold"][0].mean())
        np.testing.assert_allclose(losses["gold"], losses["full"], rtol=0.1, atol=0.02)
        self.train("silver", "bf16", "--stop-after", "1")
        self.train("silver", "bf16", "--resume")
        self.assert_same_runs("bf16, stopped and resumed")

    def test_auto_is_the_fastest_that_is_safe(self):
        self.train("gold", "auto", ranks=1)
        self.train("silver", "bf16" if CORES_HAVE_BF16 else "fp32", ranks=1)
        self.assert_same_runs("auto")


if __name__ == "__main__":
    main()
