#!/usr/bin/env python3
"""Makes golden_layers.h5: losses and gradients of small networks in PyTorch, in double, for tests/nn/golden_layers_test.cpp.

Each network is a run file, whose layers are put together here from PyTorch's functions. Between them they have every layer
that golden.h5 does not have, in one to three dimensions, and every loss. Tensors are stored in halograd's layout.
Usage: golden_layers.py OUTPUT      (needs torch, h5py and Python 3.11)
"""
import sys
import tomllib

import h5py
import numpy as np
import torch
import torch.nn.functional as F

CASES = {
    # name: (extents and channels of an image, labels: classes an image or "pixel", run file)
    "volume": ((6, 4, 6, 2), "pixel", """
loss.name = "binary_cross_entropy"
[[network.layer]]
type = "conv"
name = "first"
channels = 4
kernel = 3
padding = 1
[[network.layer]]
type = "group_norm"
name = "first_norm"
groups = 2
[[network.layer]]
type = "silu"
name = "skip"
[[network.layer]]
type = "conv"
name = "down"
channels = 6
kernel = 2
stride = 2
bias = false
[[network.layer]]
type = "layer_norm"
name = "down_norm"
[[network.layer]]
type = "gelu"
name = "bottom"
[[network.layer]]
type = "conv_transpose"
name = "up"
channels = 4
kernel = 3
stride = 2
padding = 1
output_padding = 1
groups = 2
[[network.layer]]
type = "upsample"
name = "copies"
inputs = ["bottom"]
[[network.layer]]
type = "concat"
name = "joined"
inputs = ["up", "skip", "copies"]
[[network.layer]]
type = "slice"
name = "middle"
channels = 7
first = 4
[[network.layer]]
type = "max_pool"
name = "pool"
kernel = 3
padding = 1
[[network.layer]]
type = "conv"
name = "depthwise"
channels = 14
kernel = [3, 1, 3]
padding = [1, 0, 1]
groups = 7
[[network.layer]]
type = "leaky_relu"
name = "leaky"
slope = 0.2
[[network.layer]]
type = "conv"
name = "logit"
channels = 1
kernel = 1
"""),
    "image": ((7, 8, 3), 4, """
loss.label_smoothing = 0.1
[[network.layer]]
type = "conv"
name = "first"
channels = 6
kernel = [3, 5]
stride = [2, 1]
padding = [1, 2]
[[network.layer]]
type = "sigmoid"
name = "sigmoid"
[[network.layer]]
type = "upsample"
name = "copies"
factor = [2, 1]
[[network.layer]]
type = "conv"
name = "wide"
channels = 5
kernel = 3
dilation = 2
padding = 2
[[network.layer]]
type = "tanh"
name = "tanh"
scale = 1.5
[[network.layer]]
type = "conv_transpose"
name = "grow"
channels = 4
kernel = [2, 3]
dilation = [1, 2]
stride = [1, 2]
bias = false
[[network.layer]]
type = "relu6"
name = "relu6"
[[network.layer]]
type = "avg_pool"
name = "average"
kernel = [2, 3]
stride = 2
[[network.layer]]
type = "global_avg_pool"
name = "global"
[[network.layer]]
type = "dense"
name = "classes"
channels = 4
"""),
    "row": ((21, 3), 5, """
loss.name = "mean_squared_error"
[[network.layer]]
type = "conv"
name = "first"
channels = 6
kernel = 5
dilation = 2
stride = 2
padding = 3
[[network.layer]]
type = "batch_norm"
name = "norm"
[[network.layer]]
type = "relu"
name = "relu"
[[network.layer]]
type = "conv_transpose"
name = "up"
channels = 4
kernel = 4
stride = 3
padding = 2
[[network.layer]]
type = "max_pool"
name = "pool"
kernel = 3
stride = 2
[[network.layer]]
type = "flatten"
name = "flatten"
[[network.layer]]
type = "dense"
name = "classes"
channels = 5
"""),
}
BATCH = 3


class Network:
    """The layers of a run file; parameters and activations are (N, channels, extents) inside, as PyTorch has them."""

    def __init__(self, config, dimensions):
        self.layers, self.axes, self.parameters = config["network"]["layer"], dimensions, {}

    def tensor(self, layer, name, shape, scale=0.3, shift=0.0):
        path = f"{layer['name']}/{name}"
        if path not in self.parameters:
            values = (shift + scale * torch.randn(shape, dtype=torch.float64)).float().double()
            self.parameters[path] = values.requires_grad_()
        return self.parameters[path]

    def axis_values(self, layer, key, default):
        value = layer.get(key, default)
        if not isinstance(value, list):
            value = [value]
        return tuple(value) * (self.axes if len(value) == 1 else 1)

    def bias(self, layer):
        return self.tensor(layer, "bias", (layer["channels"],)) if layer.get("bias", True) else None

    def window(self, layer):
        keys = {"stride": 1, "padding": 0, "dilation": 1}
        return {key: self.axis_values(layer, key, default) for key, default in keys.items()}

    def affine(self, layer, channels):
        return self.tensor(layer, "scale", (channels,), shift=1.0), self.tensor(layer, "shift", (channels,))

    def apply(self, layer, inputs):
        x, kind = inputs[0], layer["type"]
        channels, groups = x.shape[1], layer.get("groups", 1)
        if kind in ("conv", "conv_transpose"):
            out = layer["channels"]
            last = (channels // groups, out) if kind == "conv" else (out // groups, channels)
            weight = self.tensor(layer, "weight", self.axis_values(layer, "kernel", 1) + last)
            weight = weight.movedim((-1, -2), (0, 1))
            function = getattr(F, f"{kind}{self.axes}d")
            more = {} if kind == "conv" else {"output_padding": self.axis_values(layer, "output_padding", 0)}
            return function(x, weight, self.bias(layer), groups=groups, **self.window(layer), **more)
        if kind == "dense":
            weight = self.tensor(layer, "weight", (channels, layer["channels"]))
            return F.linear(x.flatten(1), weight.T, self.bias(layer))
        if kind in ("max_pool", "avg_pool"):
            window = self.window(layer)
            return getattr(F, f"{kind}{self.axes}d")(x, self.axis_values(layer, "kernel", 1), window["stride"],
                                                     window["padding"])
        if kind == "batch_norm":
            return F.batch_norm(x, None, None, *self.affine(layer, channels), training=True,
                                eps=layer.get("epsilon", 1e-5))
        if kind == "group_norm":
            return F.group_norm(x, groups, *self.affine(layer, channels))
        if kind == "layer_norm":
            return F.layer_norm(x.movedim(1, -1), (channels,), *self.affine(layer, channels)).movedim(-1, 1)
        if kind == "upsample":
            for axis, factor in enumerate(self.axis_values(layer, "factor", 2)):
                x = x.repeat_interleave(factor, 2 + axis)
            return x
        if kind == "leaky_relu":
            return F.leaky_relu(x, layer["slope"])
        if kind == "tanh":
            return layer.get("scale", 1) * torch.tanh(x)
        if kind == "global_avg_pool":
            return x.mean(tuple(range(2, x.ndim)), keepdim=True)
        if kind == "add":
            return inputs[0] + inputs[1]
        if kind == "dropout":
            return F.dropout(x, layer["probability"])
        if kind == "concat":
            return torch.cat(inputs, 1)
        if kind == "slice":
            return x[:, layer["first"]:layer["first"] + layer["channels"]]
        if kind == "flatten":
            return x.movedim(1, -1).flatten(1)[(...,) + (None,) * self.axes]
        return {"silu": F.silu, "gelu": F.gelu, "relu": F.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid}[kind](x)

    def __call__(self, images):
        values, last = {"input": images}, images
        for layer in self.layers:
            last = values[layer["name"]] = self.apply(layer, [values[name] for name in layer.get("inputs", [])] or [last])
        return last


def loss_of(config, outputs, labels):
    name, smoothing = config.get("loss", {}).get("name"), config.get("loss", {}).get("label_smoothing", 0)
    if name == "binary_cross_entropy":
        return F.binary_cross_entropy_with_logits(outputs[:, 0], labels.double() * (1 - smoothing) + smoothing / 2)
    if name == "mean_squared_error":
        return F.mse_loss(outputs, F.one_hot(labels, outputs.shape[1]).double())
    return F.cross_entropy(outputs, labels, label_smoothing=smoothing)


def main():
    torch.manual_seed(12)
    torch.set_num_threads(1)
    with h5py.File(sys.argv[1], "w") as file:
        file.attrs["made_by"] = f"tests/nn/golden_layers.py, PyTorch {torch.__version__}, double precision"
        for case, (shape, labelling, layers) in CASES.items():
            text = f'name = "{case}"\ndata.format = "synthetic"\nnetwork.name = "{case}"\n{layers}'
            config = tomllib.loads(text)
            images = torch.randn((BATCH, *shape)).float().double()
            pixels = labelling == "pixel"
            labels = torch.randint(0, 2 if pixels else labelling, (BATCH, *shape[:-1]) if pixels else (BATCH,))
            network = Network(config, len(shape) - 1)
            loss = loss_of(config, network(images.movedim(-1, 1)), labels)
            loss.backward()
            group = file.create_group(case)
            group.attrs["config"] = text
            store = lambda path, values: group.create_dataset(path, data=np.ascontiguousarray(values), track_times=False)
            store("shape", np.array(shape))
            store("images", images.float().numpy())
            store("labels", labels.int().numpy())
            store("loss", loss.item())
            for path, parameter in network.parameters.items():
                store(f"initial/{path}", parameter.detach().float().numpy())
                store(f"gradient/{path}", parameter.grad.float().numpy())


if __name__ == "__main__":
    main()
