#!/usr/bin/env python3
"""Makes golden.h5: ten training steps of a small network in PyTorch, in double, for tests/nn/golden_test.cpp.

Every layer type is in it, a residual block with a projection too. Tensors are stored in halograd's layout: images (N,H,W,C),
convolution weights (R,S,C,K), dense weights (C,K) with C counting (H,W,C) after a flatten.
Usage: golden.py OUTPUT      (needs torch and h5py)
"""
import sys

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RUN_FILE = """
name = "golden"
[training]
batch = 8
[data]
format = "synthetic"
[optimizer]
name = "sgd"
learning_rate = 0.05
momentum = 0.9
nesterov = true
weight_decay = 0.01
[network]
name = "golden"
layer = [
  {type = "conv", name = "stem", channels = 6, kernel = 3, padding = 1},
  {type = "batch_norm", name = "stem_norm"},
  {type = "relu", name = "stem_relu"},
  {type = "max_pool", name = "pool", kernel = 3, stride = 2, padding = 1},
  {type = "conv", name = "block_conv1", channels = 10, kernel = 3, stride = 2, padding = 1, bias = false},
  {type = "batch_norm", name = "block_norm1"},
  {type = "relu", name = "block_relu1"},
  {type = "conv", name = "block_conv2", channels = 10, kernel = 3, padding = 1, groups = 2, bias = false},
  {type = "batch_norm", name = "block_norm2"},
  {type = "conv", name = "shortcut", channels = 10, kernel = 1, stride = 2, inputs = ["pool"]},
  {type = "add", name = "block_add", inputs = ["block_norm2", "shortcut"]},
  {type = "relu", name = "block_relu2"},
  {type = "avg_pool", name = "average", kernel = 2, stride = 1},
  {type = "flatten", name = "flatten"},
  {type = "dropout", name = "dropout", probability = 0.0},
  {type = "dense", name = "hidden", channels = 12},
  {type = "relu", name = "hidden_relu"},
  {type = "dense", name = "classes", channels = 5},
]
"""
STEPS, BATCH, SIZE, CHANNELS, CLASSES = 10, 8, 12, 2, 5


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(CHANNELS, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.block_conv1, self.block_norm1 = nn.Conv2d(6, 10, 3, 2, 1, bias=False), nn.BatchNorm2d(10)
        self.block_conv2, self.block_norm2 = nn.Conv2d(10, 10, 3, 1, 1, groups=2, bias=False), nn.BatchNorm2d(10)
        self.shortcut = nn.Conv2d(6, 10, 1, 2)
        self.hidden, self.classes = nn.Linear(40, 12), nn.Linear(12, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        y = self.block_norm2(self.block_conv2(F.relu(self.block_norm1(self.block_conv1(x)))))
        x = F.avg_pool2d(F.relu(y + self.shortcut(x)), 2, 1)
        return self.classes(F.relu(self.hidden(x.flatten(1))))


def to_halograd(name, tensor):
    """(layer, tensor name, values) of a PyTorch parameter or buffer."""
    layer, kind = name.split(".")
    values = tensor.detach().numpy()
    if "norm" in layer:
        kind = {"weight": "scale", "bias": "shift"}.get(kind, kind)
    elif kind == "weight" and values.ndim == 4:
        values = values.transpose(2, 3, 1, 0)
    elif kind == "weight":
        if layer == "hidden":
            values = values.reshape(12, 10, 2, 2).transpose(0, 2, 3, 1).reshape(12, 40)
        values = values.T
    return layer, kind, np.ascontiguousarray(values)


def write(group, named_tensors):
    for name, tensor in named_tensors:
        if not name.endswith("num_batches_tracked"):
            layer, kind, values = to_halograd(name, tensor)
            group.create_dataset(f"{layer}/{kind}", data=values, track_times=False)


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    net = Golden().double()
    images = torch.randn(STEPS, BATCH, CHANNELS, SIZE, SIZE).float().double()
    labels = torch.randint(0, CLASSES, (STEPS, BATCH))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    with torch.no_grad():  # start from values that a float holds
        for parameter in net.parameters():
            parameter.copy_(parameter.float().double())
    with h5py.File(sys.argv[1], "w") as file:
        file.attrs["made_by"] = f"tests/nn/golden.py, PyTorch {torch.__version__}, double precision"
        file.attrs["config"] = RUN_FILE
        file.create_dataset("images", data=images.permute(0, 1, 3, 4, 2).float().numpy(), track_times=False)
        file.create_dataset("labels", data=labels.int().numpy(), track_times=False)
        write(file.create_group("initial"), net.named_parameters())
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images[step]), labels[step])
            loss.backward()
            if step == 0:
                write(file.create_group("gradient"), ((n, p.grad) for n, p in net.named_parameters()))
            optimizer.step()
            losses.append(loss.item())
        file.create_dataset("loss", data=np.array(losses), track_times=False)
        write(file.create_group("final"), list(net.named_parameters()) + list(net.named_buffers()))
        net.eval()
        with torch.no_grad():
            file.create_dataset("evaluation_loss", data=F.cross_entropy(net(images[0]), labels[0]).item(), track_times=False)


main()
