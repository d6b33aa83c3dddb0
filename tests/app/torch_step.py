"""One training step of a reference network against PyTorch: loss and gradients from the same parameters and batch. Shared by
the short and the long test.

The truth is PyTorch in double, and this program's error may not be much above that of PyTorch's own single precision. A few
values near zero that rounding puts on the other side of a ReLU change a gradient by up to some percent, in either program, and
behind a batch-norm all that comes before; so each network is also run with smooth functions in the place of ReLU and
max-pooling, where 1e-4 is what single precision leaves. The gradient is what a step of SGD with a learning rate of 1 takes
off the parameters.
"""

import json
import os
import sys
import tomllib

import h5py
import numpy as np

from program import SOURCE, ProgramTest

sys.path.insert(0, os.path.join(SOURCE, "tests", "nn"))
try:
    import torch
    import torch.nn.functional as F
    from golden_layers import Network
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

# name: (batch, extents and channels of an image, classes or numbers; 0: labels 0 and 1 a pixel)
NETWORKS = {
    "lenet5": (8, (28, 28, 1), 10),
    "vgg_small": (8, (32, 32, 3), 10),
    "resnet20": (8, (32, 32, 3), 10),
    "resnet18": (8, (32, 32, 3), 10),
    "resnet50": (8, (96, 96, 3), 20),
    "mobilenet_v2": (8, (96, 96, 3), 20),
    "unet2d": (2, (32, 32, 1), 0),
    "ffn3d": (2, (10, 8, 12, 1), 0),
    "cosmoflow": (2, (32, 64, 32, 4), 4),
}
LOSSES = {"unet2d": "binary_cross_entropy", "ffn3d": "binary_cross_entropy", "cosmoflow": "mean_squared_error"}
RATE = 1024.0  # so much that the weights' own last digits do not count
# Without kinks at which rounding decides.
SMOOTH = {"relu": "silu", "relu6": "silu", "leaky_relu": "silu", "max_pool": "avg_pool"}


def read_tensors(path):
    """{"layer/tensor": values} of a checkpoint's mean model."""
    tensors = {}
    with h5py.File(path, "r") as file:
        file["mean"].visititems(lambda name, item: tensors.update({name: item[()]} if hasattr(item, "shape") else {}))
    return tensors


class TorchStepTest(ProgramTest):
    def layers_of(self, name):
        """The network's layers as a run has written them out, with nothing random, and one label an image."""
        batch, shape, classes = NETWORKS[name]
        self.write("written.toml", f"""
name = "written"
network.name = "{name}"
training = {{batch = 2, epochs = 1}}
loss.name = "{LOSSES.get(name, 'cross_entropy')}"
[data]
format = "synthetic"
synthetic_shape = {list(shape)}
synthetic_classes = {classes or 2}
synthetic_labels = "{'image' if classes else 'pixel'}"
synthetic_train = 2
synthetic_test = 2
""")
        self.succeed("train", "written.toml")
        with open(self.path("runs", "written", "config.toml"), "rb") as file:
            layers = tomllib.load(file)["network"]["layer"]
        for layer in layers:
            if layer["type"] == "dropout":
                layer["probability"] = 0.0
        return layers + ([] if classes else [{"type": "global_avg_pool", "name": "mean"}])

    def step(self, name, layers, learning_rate):
        """The tensors after one step, and its loss."""
        batch = NETWORKS[name][0]
        table = lambda layer: "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in layer.items()) + "}"
        self.write("run.toml", f"""
name = "step"
training = {{batch = {batch}, epochs = 1}}
data = {{format = "hdf5", path = "data.h5"}}
optimizer = {{name = "sgd", learning_rate = {learning_rate}}}
loss.name = "{LOSSES.get(name, 'cross_entropy')}"
[network]
name = "layers"
layer = [
{",".join(map(table, layers))}
]
""")
        self.succeed("train", "run.toml", "--overwrite")
        with h5py.File(self.path("runs", "step", "metrics.h5"), "r") as file:
            loss = file["step/loss"][()].ravel()
        self.assertEqual(loss.size, 1)
        return read_tensors(self.path("runs", "step", "checkpoint.h5")), loss[0]

    def in_torch(self, layers, initial, images, labels, precision):
        """The loss and the gradients."""
        axes = images.ndim - 2
        network = Network({"network": {"layer": layers}}, axes)
        network.parameters = {name: torch.tensor(values, dtype=precision, requires_grad=True)
                              for name, values in initial.items() if "/running_" not in name}
        outputs = network(torch.tensor(images, dtype=precision).movedim(-1, 1)).flatten(1)
        if outputs.shape[1] == 1:
            loss = F.binary_cross_entropy_with_logits(outputs[:, 0], torch.tensor(labels, dtype=precision))
        elif labels.ndim == 2:
            loss = F.mse_loss(outputs, torch.tensor(labels, dtype=precision))
        else:
            loss = F.cross_entropy(outputs, torch.tensor(labels).long())
        loss.backward()
        return loss.item(), {name: tensor.grad.double().numpy() for name, tensor in network.parameters.items()}

    def errors(self, name, layers, initial, images, labels):
        """The largest error of a tensor's gradient, by its norm: of this program and of PyTorch in single precision."""
        after, loss = self.step(name, layers, RATE)
        true_loss, truth = self.in_torch(layers, initial, images, labels, torch.float64)
        _, single = self.in_torch(layers, initial, images, labels, torch.float32)
        self.assertLess(abs(loss - true_loss), 2e-5 * true_loss)
        self.assertEqual(sorted(truth), sorted(tensor for tensor in initial if "/running_" not in tensor))
        # Parameters whose effect a batch-norm takes out again have no gradient but rounding: hence the floor.
        floor = 1e-4 * np.linalg.norm(np.concatenate([values.ravel() for values in truth.values()]))
        largest = lambda gradient: np.max([  # unlike max, it keeps NaN
            np.linalg.norm(gradient(tensor) - expected) / (np.linalg.norm(expected) + floor)
            for tensor, expected in truth.items()])
        return (largest(lambda tensor: (initial[tensor].astype(np.float64) - after[tensor]) / RATE),
                largest(lambda tensor: single[tensor]))

    def check(self, name):
        batch, shape, classes = NETWORKS[name]
        random = np.random.default_rng(7)
        images = random.normal(size=(batch, *shape)).astype(np.float32)
        labels = random.integers(0, classes or 2, batch).astype(np.int32)
        if LOSSES.get(name) == "mean_squared_error":
            labels = random.normal(size=(batch, classes)).astype(np.float32)
        with h5py.File(self.path("data.h5"), "w") as file:
            for split in ("train", "test"):
                file[f"{split}/images"], file[f"{split}/labels"] = images, labels
                if labels.ndim == 1:
                    file[f"{split}/labels"].attrs["classes"] = classes or 2
        layers = self.layers_of(name)
        initial, _ = self.step(name, layers, 1e-30)
        ours, theirs = self.errors(name, layers, initial, images, labels)
        self.assertLess(ours, 4 * theirs + 2e-2)
        smooth = [{key: SMOOTH.get(value, value) if key == "type" else value for key, value in layer.items() if key != "slope"}
                  for layer in layers]
        ours, theirs = self.errors(name, smooth, initial, images, labels)
        self.assertLess(ours, 4 * theirs + 5e-5)
