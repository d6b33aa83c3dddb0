"""The networks of convert_test.py in PyTorch, with the layers' names of the run file as the modules' names."""

import torch
from torch import nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.dense1, self.dense2 = nn.Linear(50 * 4 * 4, 500), nn.Linear(500, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense2(F.relu(self.dense1(torch.flatten(x, 1))))


class ResNet20(nn.Module):
    """Its modules are called as the layers are: stage1_block1_conv1 and so on."""

    def __init__(self, channels=3, classes=10):
        super().__init__()
        self.stem_conv, self.stem_norm = nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        width = 16
        for stage, out in enumerate((16, 32, 64), 1):
            for block in range(1, 4):
                name, stride = f"stage{stage}_block{block}", 2 if stage > 1 and block == 1 else 1
                self.add_module(f"{name}_conv1", nn.Conv2d(width, out, 3, stride, 1, bias=False))
                self.add_module(f"{name}_norm1", nn.BatchNorm2d(out))
                self.add_module(f"{name}_conv2", nn.Conv2d(out, out, 3, 1, 1, bias=False))
                self.add_module(f"{name}_norm2", nn.BatchNorm2d(out))
                if stride != 1:
                    self.add_module(f"{name}_shortcut", nn.Conv2d(width, out, 1, stride, bias=False))
                    self.add_module(f"{name}_shortcut_norm", nn.BatchNorm2d(out))
                width = out
        self.dense = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem_conv(x)))
        for stage in range(1, 4):
            for block in range(1, 4):
                layer = lambda end: getattr(self, f"stage{stage}_block{block}_{end}")
                y = F.relu(layer("norm1")(layer("conv1")(x)))
                y = layer("norm2")(layer("conv2")(y))
                x = layer("shortcut_norm")(layer("shortcut")(x)) if stage > 1 and block == 1 else x
                x = F.relu(x + y)
        return self.dense(x.mean((2, 3)))


class Every(nn.Module):
    """One of each layer, EVERY in convert_networks.py."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 8, 3, (2, 1), (1, 2), bias=False)
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.grouped = nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=4)
        self.folded = nn.BatchNorm1d(8 * 3 * 5)
        self.hidden = nn.Linear(8 * 3 * 5, 12)
        self.head = nn.Linear(12, 4, bias=False)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = x + self.grouped(x)
        x = F.avg_pool2d(F.max_pool2d(x, 3, 1, 1), (2, 3), 2, (1, 1))
        x = F.relu(self.folded(torch.flatten(x, 1)))
        return self.head(F.relu(self.hidden(x)))


class Volumes(nn.Module):
    """VOLUMES in convert_networks.py: layers of three spatial axes."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv3d(2, 8, 3, 2, 1)
        self.groups = nn.GroupNorm(4, 8, eps=1e-4)
        self.deep = nn.Conv3d(8, 8, (1, 3, 3), 1, (0, 1, 1), groups=2)
        self.up = nn.ConvTranspose3d(8, 6, 3, (2, 2, 1), 1, output_padding=(1, 1, 0), groups=2)
        self.beside = nn.ConvTranspose3d(8, 4, (2, 2, 1), (2, 2, 1), bias=False)
        self.pixels = nn.LayerNorm(12, eps=1e-3)
        self.head = nn.Linear(12, 3)
        self.last = nn.GroupNorm(1, 3)

    def forward(self, x):
        down = F.silu(self.groups(self.down(x)))
        deep = F.gelu(self.deep(down))
        wide = F.interpolate(deep, scale_factor=(2, 2, 1), mode="nearest")
        x = torch.cat((1.2 * torch.tanh(self.up(deep)), F.leaky_relu(self.beside(deep), 0.2), wide), 1)[:, 3:15]
        x = self.pixels(x.movedim(1, -1)).movedim(-1, 1)
        x = torch.sigmoid(self.head(F.relu6(x).mean((2, 3, 4))))
        return self.last(x)


class Rows(nn.Module):
    """ROWS in convert_networks.py: layers of one spatial axis."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(3, 6, 5, 2, 2)
        self.groups = nn.GroupNorm(3, 6)
        self.up = nn.ConvTranspose1d(6, 4, 4, 3, 1, dilation=2, output_padding=2)
        self.head = nn.Linear(4 * 16, 5)

    def forward(self, x):
        x = F.max_pool1d(self.groups(self.stem(x)), 2)
        return self.head(torch.flatten(F.gelu(self.up(x)), 1))
