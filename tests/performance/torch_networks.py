"""The reference networks (lib/nn/reference_networks.cpp) in PyTorch: networks(torch)[name]()."""

INPUTS = {"lenet5": (1, 28, 28), "resnet50": (3, 224, 224), "mobilenet_v2": (3, 224, 224), "unet2d": (1, 128, 128),
          "ffn3d": (1, 16, 16, 16), "cosmoflow": (4, 128, 128, 128)}  # of the others (3, 32, 32)
CLASSES = {"resnet50": 1000, "mobilenet_v2": 1000}  # of the others 10
OUTPUT_PER_PIXEL = ("unet2d", "ffn3d")
NUMBERS = {"cosmoflow": 4}  # that a network predicts instead of a class


def networks(torch):
    nn, functional = torch.nn, torch.nn.functional

    def normalised(channels, filters, kernel, stride=1, groups=1):
        return [nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False),
                nn.BatchNorm2d(filters)]

    class Residual(nn.Module):
        def __init__(self, main, channels, filters, stride):
            super().__init__()
            self.main = nn.Sequential(*main)
            self.shortcut = nn.Identity() if stride == 1 and channels == filters else nn.Sequential(
                *normalised(channels, filters, 1, stride))

        def forward(self, x):
            return functional.relu(self.main(x) + self.shortcut(x))

    def basic(channels, filters, stride):
        return Residual([*normalised(channels, filters, 3, stride), nn.ReLU(), *normalised(filters, filters, 3)],
                        channels, filters, stride)

    def bottleneck(channels, filters, stride):
        width = filters // 4
        return Residual([*normalised(channels, width, 1), nn.ReLU(), *normalised(width, width, 3, stride), nn.ReLU(),
                         *normalised(width, filters, 1)], channels, filters, stride)

    def residual(stem, channels, widths, blocks, block, classes):
        layers = list(stem)
        for stage, filters in enumerate(widths):
            for index in range(blocks[stage]):
                layers.append(block(channels, filters, 2 if stage > 0 and index == 0 else 1))
                channels = filters
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    def resnet20():
        return residual([*normalised(3, 16, 3), nn.ReLU()], 16, (16, 32, 64), (3, 3, 3), basic, 10)

    def resnet18():
        return residual([*normalised(3, 64, 3), nn.ReLU()], 64, (64, 128, 256, 512), (2, 2, 2, 2), basic, 10)

    def resnet50():
        stem = [*normalised(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        return residual(stem, 64, (256, 512, 1024, 2048), (3, 4, 6, 3), bottleneck, 1000)

    class InvertedResidual(nn.Module):
        def __init__(self, channels, filters, stride, expansion):
            super().__init__()
            width = channels * expansion
            expand = [*normalised(channels, width, 1), nn.ReLU6()] if expansion > 1 else []
            self.main = nn.Sequential(*expand, *normalised(width, width, 3, stride, groups=width), nn.ReLU6(),
                                      *normalised(width, filters, 1))
            self.adds = stride == 1 and channels == filters

        def forward(self, x):
            return self.main(x) + x if self.adds else self.main(x)

    def mobilenet_v2():
        layers, channels = [*normalised(3, 32, 3, 2), nn.ReLU6()], 32
        for expansion, filters, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                   (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for index in range(blocks):
                layers.append(InvertedResidual(channels, filters, stride if index == 0 else 1, expansion))
                channels = filters
        return nn.Sequential(*layers, *normalised(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                             nn.Dropout(0.2), nn.Linear(1280, 1000))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            twice = lambda channels, filters: nn.Sequential(*normalised(channels, filters, 3), nn.ReLU(),
                                                            *normalised(filters, filters, 3), nn.ReLU())
            self.down = nn.ModuleList([twice(1, 32), twice(32, 64), twice(64, 128)])
            self.bottom = twice(128, 256)
            self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * filters, filters, 2, 2) for filters in (128, 64, 32)])
            self.up = nn.ModuleList([twice(2 * filters, filters) for filters in (128, 64, 32)])
            self.outputs = nn.Conv2d(32, 1, 1)

        def forward(self, x):
            kept = []
            for down in self.down:
                kept.append(down(x))
                x = functional.max_pool2d(kept[-1], 2)
            x = self.bottom(x)
            for grow, up in zip(self.grow, self.up):
                x = up(torch.cat([grow(x), kept.pop()], 1))
            return self.outputs(x)

    class ResidualVolumes(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.main = nn.Sequential(nn.ReLU(), nn.Conv3d(channels, channels, 3, padding=1),
                                      nn.ReLU(), nn.Conv3d(channels, channels, 3, padding=1))

        def forward(self, x):
            return self.main(x) + x

    def ffn3d():
        return nn.Sequential(
            nn.Conv3d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv3d(32, 32, 3, padding=1),
            *(ResidualVolumes(32) for _ in range(4)), nn.ReLU(), nn.Conv3d(32, 1, 1))

    class BoundedNumbers(nn.Module):
        def forward(self, x):
            return 1.2 * torch.tanh(x)

    def cosmoflow():
        layers, channels = [], 4
        for filters in (32, 64, 128, 256, 512):
            layers += [nn.Conv3d(channels, filters, 2, padding=1), nn.LeakyReLU(0.3), nn.MaxPool3d(2)]
            channels = filters
        layers.append(nn.Flatten())
        features = 512 * 4**3
        for units in (128, 64):
            layers += [nn.Linear(features, units), nn.LeakyReLU(0.3), nn.Dropout(0.5)]
            features = units
        return nn.Sequential(*layers, nn.Linear(features, NUMBERS["cosmoflow"]), BoundedNumbers())

    def lenet5():
        return nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))

    def vgg_small():
        layers, channels = [], 3
        for filters in (64, 128, 256):
            for _ in range(2):
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10))

    return {"lenet5": lenet5, "vgg_small": vgg_small, "resnet20": resnet20, "resnet18": resnet18,
            "resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "unet2d": UNet, "ffn3d": ffn3d, "cosmoflow": cosmoflow}
