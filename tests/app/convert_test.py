#!/usr/bin/env python3
"""halograd convert: checkpoints to and from PyTorch, and to ONNX."""

import functools
import json
import os
import shutil
import struct
import tempfile
import unittest

import h5py
import numpy as np

from convert_networks import EVERY, LENET5, RESNET20, ROWS, VOLUMES
from onnx_file import Onnx
from program import ProgramTest, execute, launched, main, sets

CLASSES = 4
TORCH_NAMES = {"scale": "weight", "shift": "bias"}


def read_safetensors(path):
    """A reader by the published format, beside the one in the program."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    kinds = {"F32": "<f4", "I64": "<i8", "F64": "<f8"}
    tensors = {name: np.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
               for name, entry in header.items()}
    return tensors, metadata


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind = {"<f4": "F32", "<i8": "I64", "<f8": "F64", "<f2": "F16"}[tensor.dtype.newbyteorder("<").str]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += np.ascontiguousarray(tensor).tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


torch, onnxruntime = optional("torch"), optional("onnxruntime")


class Convert(ProgramTest):
    @classmethod
    @functools.cache
    def trained(cls, text=EVERY, ranks=0):
        """Run file and checkpoint of a training that tests share."""
        folder = tempfile.mkdtemp(prefix="halograd_app_")
        cls.addClassCleanup(shutil.rmtree, folder)
        run = os.path.join(folder, "run.toml")
        with open(run, "w", encoding="utf-8") as file:
            file.write(text)
        result = execute(launched(["train", run, *sets(name="run", averager__name="none")], ranks), folder)
        if (result.status, result.err) != (0, ""):
            raise AssertionError(result.out + result.err)
        return run, os.path.join(folder, "runs/run/checkpoint.h5")

    def test_tensors_are_laid_out_as_pytorch_has_them(self):
        _, checkpoint = self.trained(ranks=2)
        self.succeed("convert", checkpoint, "mean.safetensors")
        self.succeed("convert", checkpoint, "mean.h5")
        self.succeed("convert", checkpoint, "second.safetensors", "--replica", "1")
        tensors, metadata = read_safetensors(self.path("mean.safetensors"))
        self.assertEqual((metadata["format"], metadata["network"], metadata["step"]), ("pt", "every", "8"))
        second, _ = read_safetensors(self.path("second.safetensors"))
        expected = {}
        with h5py.File(checkpoint, "r") as file, h5py.File(self.path("mean.h5"), "r") as in_hdf5:
            self.assertEqual(sorted(in_hdf5), sorted(tensors))
            for layer, group in file["mean"].items():
                for name, dataset in group.items():
                    ours = dataset[()]
                    kind = "statistics" if dataset.attrs["kind"] == "statistic" else "parameters"
                    start = dataset.attrs["offset"]
                    row = file["replica"][kind][1][start:start + ours.size].reshape(ours.shape)
                    for array, found in ((ours, tensors), (row, second)):
                        if layer == "hidden" and name == "weight":  # (H, W, C) before, (C, H, W) in PyTorch
                            array = array.reshape(3, 5, 8, 12).transpose(2, 0, 1, 3).reshape(120, 12).T
                        elif layer == "folded":
                            array = array.reshape(3, 5, 8).transpose(2, 0, 1).reshape(120)
                        elif array.ndim == 4:
                            array = array.transpose(3, 2, 0, 1)
                        elif array.ndim == 2:
                            array = array.T
                        torch_name = f"{layer}.{TORCH_NAMES.get(name, name)}"
                        expected[torch_name] = array
                        self.assert_same_bits(found[torch_name], np.ascontiguousarray(array), torch_name)
            for name, array in tensors.items():
                self.assert_same_bits(in_hdf5[name][()], array, name)
        expected |= {f"{layer}.num_batches_tracked": 8 for layer in ("norm", "folded")}
        self.assertEqual(sorted(tensors), sorted(expected))
        self.assertEqual(int(tensors["norm.num_batches_tracked"]), 8)

    def test_there_and_back_is_the_same_model_and_a_start_for_training(self):
        run, checkpoint = self.trained(ranks=2)
        expected = self.succeed_json("evaluate", checkpoint)["mean_model_loss"]
        for ending in ("safetensors", "h5"):
            self.succeed("convert", checkpoint, f"state.{ending}")
            self.succeed("convert", f"state.{ending}", f"back_{ending}.h5", "--config", run)
            self.assertEqual(self.succeed_json("evaluate", f"back_{ending}.h5")["mean_model_loss"], expected)
            with h5py.File(checkpoint) as first, h5py.File(self.path(f"back_{ending}.h5")) as second:
                for name in ("stem/weight", "folded/running_var", "hidden/weight"):
                    self.assert_same_bits(first["mean"][name][()], second["mean"][name][()], name)
        started = self.succeed_json("train", run, "--init", "back_h5.h5",
                                    *sets(name="started", optimizer__learning_rate=1e-30, training__epochs=1), ranks=2)
        with h5py.File(checkpoint) as first, h5py.File(self.path(started["checkpoint"])) as second:
            for name in ("stem/weight", "hidden/weight", "head/weight"):
                self.assert_same_bits(first["mean"][name][()], second["mean"][name][()], name)

    def test_onnx_structure(self):
        _, checkpoint = self.trained(ranks=2)
        self.succeed("convert", checkpoint, "model.onnx", *sets(data__mean="[0.5, 0.25]"))
        self.succeed("convert", checkpoint, "state.safetensors")
        state, _ = read_safetensors(self.path("state.safetensors"))
        model = Onnx(self.path("model.onnx"))
        self.assertEqual((model.ir_version, model.operator_set), (7, ("", 13)))
        self.assertEqual(model.input, ("images", ["batch", 2, 10, 7]))
        self.assertEqual(model.output, ("logits", ["batch", CLASSES]))
        self.assertEqual((model.metadata["network"], model.metadata["mean"]), ("every", "0.500000 0.250000"))
        self.assertEqual([node[0] for node in model.nodes],
                         ["Conv", "BatchNormalization", "Relu", "Conv", "Add", "MaxPool", "AveragePool", "Flatten",
                          "Identity", "BatchNormalization", "Relu", "Identity", "Gemm", "Relu", "Gemm", "Identity"])
        known = {"images", *model.tensors}
        for operation, inputs, outputs, _ in model.nodes:
            self.assertLessEqual(set(inputs), known, operation)
            self.assertTrue(known.isdisjoint(outputs), operation)
            known |= set(outputs)
        self.assertIn("logits", known)
        self.assertEqual(model.nodes[0][3], {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 2, 1, 2],
                                             "dilations": [1, 1], "group": 1})
        self.assertEqual(model.nodes[3][3], {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [2, 2, 2, 2],
                                             "dilations": [2, 2], "group": 4})
        self.assertEqual(model.nodes[6][3], {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 1, 1],
                                             "count_include_pad": 1})
        self.assertAlmostEqual(model.nodes[1][3]["epsilon"], 1e-3)
        for name, tensor in state.items():
            if tensor.dtype == np.float32:
                self.assert_same_bits(model.tensors.pop(name), tensor, name)
        self.assertEqual(model.tensors, {})

    def test_onnx_of_the_other_layers(self):
        """Without a library to run it: operators, attributes, and that each input is there before it is used."""
        for name, text in (("volumes", VOLUMES), ("rows", ROWS)):
            self.succeed("convert", self.trained(text)[1], f"{name}.onnx")
        model = Onnx(self.path("volumes.onnx"))
        known = {"", "images", *model.tensors}
        nodes = {}
        for operation, inputs, outputs, values in model.nodes:
            self.assertLessEqual(set(inputs), known, operation)
            self.assertTrue(known.isdisjoint(outputs), outputs)
            known |= set(outputs)
            nodes[outputs[0]] = (operation, inputs, values)
        self.assertEqual(nodes["up"][0], "ConvTranspose")
        self.assertEqual(nodes["up"][2], {"kernel_shape": [3, 3, 3], "strides": [2, 2, 1], "pads": [1] * 6,
                                          "dilations": [1, 1, 1], "group": 2, "output_padding": [1, 1, 0]})
        self.assertEqual(model.tensors["up.weight"].shape, (8, 3, 3, 3, 3))
        self.assertEqual(nodes["third"][2], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                             "nearest_mode": "floor"})
        self.assertEqual(model.tensors["third/scales"].tolist(), [1, 1, 2, 2, 1])
        self.assertEqual(nodes["all"][:2], ("Concat", ["first", "second", "third"]))
        self.assertEqual(nodes["some"][:2], ("Slice", ["all", "some/begin", "some/end", "some/axis"]))
        self.assertEqual([int(model.tensors[f"some/{what}"][0]) for what in ("begin", "end", "axis")], [3, 15, 1])
        self.assertAlmostEqual(nodes["second"][2]["alpha"], 0.2)
        self.assertEqual(model.tensors["groups/shape"].tolist(), [0, 8, 3, 4, 3])
        self.assertEqual(nodes["groups/normal_groups"][0], "InstanceNormalization")
        self.assertEqual(Onnx(self.path("rows.onnx")).input, ("images", ["batch", 3, 18]))

    def check_outputs(self, checkpoint, shape, classes, forward, count=5):
        """Holds log-probabilities against the program's, image by image: logits = forward(images in NCHW)."""
        images = np.random.default_rng(5).random((count, *shape), dtype=np.float32)
        logits = np.asarray(forward(np.ascontiguousarray(np.moveaxis(images, -1, 1)))).astype(np.float64)
        self.assertEqual(logits.shape, (count, classes))
        with h5py.File(self.path("images.h5"), "w") as file:
            file["images"] = images
        self.succeed("predict", checkpoint, "images.h5", "--output", "scores.h5", "--overwrite")
        with h5py.File(self.path("scores.h5"), "r") as file:
            found = np.log(file["scores"][()].astype(np.float64))
        logits -= logits.max(axis=1, keepdims=True)
        np.testing.assert_allclose(found, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), atol=1e-4, rtol=0)

    def in_torch(self, module, state):
        tensors, _ = read_safetensors(self.path(state))
        module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}, strict=True)
        module.eval()
        return lambda images: module(torch.from_numpy(images)).detach().numpy()

    @unittest.skipIf(torch is None, "SKIPPED: PyTorch is not installed for this Python")
    def test_pytorch_gives_the_same_outputs(self):
        from torch_networks import Every, LeNet5, ResNet20, Rows, Volumes
        for text, module, shape, classes in ((EVERY, Every, (10, 7, 2), 4), (VOLUMES, Volumes, (6, 8, 5, 2), 3),
                                             (ROWS, Rows, (18, 3), 5), (LENET5, LeNet5, (28, 28, 1), 10),
                                             (RESNET20, ResNet20, (32, 32, 3), 10)):
            with self.subTest(module.__name__):
                _, checkpoint = self.trained(text)
                self.succeed("convert", checkpoint, f"{module.__name__}.safetensors")
                self.check_outputs(checkpoint, shape, classes, self.in_torch(module(), f"{module.__name__}.safetensors"))

    @unittest.skipIf(torch is None, "SKIPPED: PyTorch is not installed for this Python")
    def test_weights_of_pytorch_come_in(self):
        from torch_networks import Every, Rows, Volumes
        torch.manual_seed(1)
        for text, module, shape, classes in ((EVERY, Every(), (10, 7, 2), 4), (VOLUMES, Volumes(), (6, 8, 5, 2), 3),
                                             (ROWS, Rows(), (18, 3), 5)):
            name = type(module).__name__
            with self.subTest(name):
                module(torch.rand(8, shape[-1], *shape[:-1]))  # running statistics that are not those of the start
                for parameter in module.parameters():  # nor scales and shifts
                    parameter.data += 0.1 * torch.rand_like(parameter)
                module.eval()
                state = {key: tensor.numpy() for key, tensor in module.state_dict().items()}
                write_safetensors(self.path(f"{name}.safetensors"), state)
                self.succeed("convert", f"{name}.safetensors", f"{name}.h5", "--config", self.write(f"{name}.toml", text))
                self.check_outputs(f"{name}.h5", shape, classes,
                                   lambda images: module(torch.from_numpy(images)).detach().numpy())

    @unittest.skipIf(onnxruntime is None, "SKIPPED: onnxruntime is not installed for this Python")
    def test_onnxruntime_gives_the_same_outputs(self):
        for name, text, shape, classes in (("every", EVERY, (10, 7, 2), 4), ("volumes", VOLUMES, (6, 8, 5, 2), 3),
                                           ("rows", ROWS, (18, 3), 5), ("lenet5", LENET5, (28, 28, 1), 10),
                                           ("resnet20", RESNET20, (32, 32, 3), 10)):
            with self.subTest(name):
                _, checkpoint = self.trained(text)
                self.succeed("convert", checkpoint, f"{name}.onnx")
                session = onnxruntime.InferenceSession(self.path(f"{name}.onnx"), providers=["CPUExecutionProvider"])
                self.check_outputs(checkpoint, shape, classes, lambda images: session.run(None, {"images": images})[0])

    def test_refusals(self):
        run, checkpoint = self.trained(ranks=2)
        checkpoint = shutil.copy(checkpoint, self.path("checkpoint.h5"))  # refusals must leave it as it is
        self.succeed("convert", checkpoint, "state.safetensors")
        state, _ = read_safetensors(self.path("state.safetensors"))
        with open(self.path("state.safetensors"), "rb") as file:
            whole = file.read()
        with open(self.path("cut.safetensors"), "wb") as file:
            file.write(whole[:-100])
        with open(self.path("header.safetensors"), "wb") as file:
            file.write(whole[:200])
        with open(self.path("words.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", 12) + b'{"a": [1, b]' + b"....")
        other = {**state, "extra.weight": np.zeros((2, 3), np.float32), "head.weight": np.zeros((4, 13), np.float32)}
        del other["stem.weight"]
        write_safetensors(self.path("other.safetensors"), other)
        write_safetensors(self.path("half.safetensors"), {"stem.weight": np.zeros(3, np.float16)})

        def refused(words, *arguments):
            self.refuse("convert", *arguments, words=words, ranks=0)

        refused(["cut.safetensors", "is cut short"], "cut.safetensors", "x.h5", "--config", run)
        refused(["header.safetensors", "cut short"], "header.safetensors", "x.h5", "--config", run)
        refused(["words.safetensors", "offset"], "words.safetensors", "x.h5", "--config", run)
        refused(["half.safetensors", "stem.weight", "F16", ".float()"], "half.safetensors", "x.h5", "--config", run)
        refused(["missing: stem.weight (8, 2, 3, 3)", "not in the network: extra.weight (2, 3)",
                 "head.weight is (4, 13), expected (4, 12)"], "other.safetensors", "x.h5", "--config", run)
        refused(["state.safetensors", "--config"], "state.safetensors", "x.h5")
        refused(["state.safetensors: exists", "--overwrite"], checkpoint, "state.safetensors")
        refused(["model.pt", ".safetensors", ".onnx"], checkpoint, "model.pt")
        refused(["2 ranks", "replica 7"], checkpoint, "x.onnx", "--replica", "7")
        refused(["nowhere.h5"], "nowhere.h5", "x.onnx")
        refused(["--input is '10'"], checkpoint, "x.onnx", "--input", "10")
        self.succeed("convert", checkpoint, "state.safetensors", "--overwrite")


if __name__ == "__main__":
    main()
