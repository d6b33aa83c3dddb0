"""Run files of the networks of convert_test.py; torch_networks.py has them in PyTorch."""

EVERY = """
name = "every"
[training]
batch = 16
epochs = 2
[data]
format = "synthetic"
synthetic_train = 64
synthetic_test = 16
synthetic_shape = [10, 7, 2]
synthetic_classes = 4
[network]
name = "every"
[[network.layer]]
type = "conv"
name = "stem"
channels = 8
kernel = 3
stride = [2, 1]
padding = [1, 2]
bias = false
[[network.layer]]
type = "batch_norm"
name = "norm"
epsilon = 1e-3
[[network.layer]]
type = "relu"
name = "positive"
[[network.layer]]
type = "conv"
name = "grouped"
channels = 8
kernel = 3
padding = 2
dilation = 2
groups = 4
[[network.layer]]
type = "add"
name = "sum"
inputs = ["positive", "grouped"]
[[network.layer]]
type = "max_pool"
kernel = 3
padding = 1
[[network.layer]]
type = "avg_pool"
kernel = [2, 3]
stride = 2
padding = 1
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "batch_norm"
name = "folded"
[[network.layer]]
type = "relu"
[[network.layer]]
type = "dropout"
[[network.layer]]
type = "dense"
name = "hidden"
channels = 12
[[network.layer]]
type = "relu"
[[network.layer]]
type = "dense"
name = "head"
channels = 4
bias = false
"""
SYNTHETIC = """
name = "net"
training = {{batch = 16, epochs = 2}}
[data]
format = "synthetic"
synthetic_train = 32
synthetic_test = 8
synthetic_shape = [{}]
synthetic_classes = {}
[network]
name = "{}"
"""
VOLUMES = SYNTHETIC.format("6, 8, 5, 2", 3, "volumes") + """
layer = [
  {type = "conv", name = "down", channels = 8, kernel = 3, stride = 2, padding = 1},
  {type = "group_norm", name = "groups", groups = 4, epsilon = 1e-4},
  {type = "silu", name = "smooth"},
  {type = "conv", name = "deep", channels = 8, kernel = [1, 3, 3], padding = [0, 1, 1], groups = 2},
  {type = "gelu", name = "bent"},
  {type = "conv_transpose", name = "up", channels = 6, kernel = 3, stride = [2, 2, 1], padding = 1, \
output_padding = [1, 1, 0], groups = 2},
  {type = "tanh", name = "first", scale = 1.2},
  {type = "conv_transpose", name = "beside", inputs = ["bent"], channels = 4, kernel = [2, 2, 1], stride = [2, 2, 1], \
bias = false},
  {type = "leaky_relu", name = "second", slope = 0.2},
  {type = "upsample", name = "third", inputs = ["bent"], factor = [2, 2, 1]},
  {type = "concat", name = "all", inputs = ["first", "second", "third"]},
  {type = "slice", name = "some", channels = 12, first = 3},
  {type = "layer_norm", name = "pixels", epsilon = 1e-3},
  {type = "relu6"},
  {type = "global_avg_pool"},
  {type = "dense", name = "head", channels = 3},
  {type = "sigmoid"},
  {type = "group_norm", name = "last", groups = 1}]
"""
ROWS = SYNTHETIC.format("18, 3", 5, "rows") + """
layer = [
  {type = "conv", name = "stem", channels = 6, kernel = 5, stride = 2, padding = 2},
  {type = "group_norm", name = "groups", groups = 3},
  {type = "max_pool", kernel = 2, stride = 2},
  {type = "conv_transpose", name = "up", channels = 4, kernel = 4, stride = 3, padding = 1, dilation = 2, output_padding = 2},
  {type = "gelu"},
  {type = "flatten"},
  {type = "dense", name = "head", channels = 5}]
"""
LENET5, RESNET20 = SYNTHETIC.format("28, 28, 1", 10, "lenet5"), SYNTHETIC.format("32, 32, 3", 10, "resnet20")
