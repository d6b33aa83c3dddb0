"""Runs drawn at random over all keys of the run file, and what the program promises of every run; shared by the short and the
long test. A failure shows the seed and the run file; HALOGRAD_SEED=N has the long test begin with seed N."""

import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import time

import h5py
import numpy as np

from faults import FaultTest
from program import CORES_HAVE_BF16, INPUTS, TIMEOUT, ranks_below, read_metrics, read_replicas, sets

TRAIN, TEST = 60, 18  # images of the sets that are made here
NUMBERS = 3  # of a label in the set of real numbers

# In these tables a tuple holds choices, of which one is drawn; a list is a value.
# Keys that are mostly left out:
SELDOM = {
    "training.seed": (0, 7),
    "training.threads": (0, 2),
    "training.shares": ("measured",),
    "training.resumed_optimizer": ("reset",),
    "training.non_finite": ("skip",),
    "training.step_recording": ("off",),
    "training.precision": ("auto", "bf16") if CORES_HAVE_BF16 else ("auto",),
    "data.prefetch": (False,),
    "data.prefetch_batches": (1, 5),
    "data.shuffle": ("full", "window", "ring"),
    "data.shuffle_window": (1, 2),
    "schedule.warmup_epochs": (0.5, 3),
    "comm.force_put": (True,),
    "comm.slots": (3, 5),
    "comm.progress_us": (0, 100),
    "comm.transport": ("put", "send"),
    "comm.device_windows": ("off",),
    "comm.inject": ({"slow_rank": 1, "compute_us": 500}, {"latency_us": 300}, {"bandwidth_mb": 20}, {"compute_us": 1000}),
    "output.checkpoint_epochs": (0, 2),
    "output.checkpoint_minutes": (1e-6,),
    "output.local_steps": (2,),
    "output.keep_best": (False,),
    "output.compress": (True,),
    "output.print_steps": (0, 1),
    "parallel": ({"spatial": [2]}, {"spatial": [2, 1]}, {"spatial": [1, 3]}, {"spatial": [2, 1], "channels": 2},
                 {"spatial": [1, 2, 1]}, {"channels": 2}),
}

OPTIMIZERS = (
    {"name": "sgd", "momentum": (0, 0.9)},
    {"name": "sgd", "momentum": 0.5, "nesterov": True, "weight_decay": (0, 0.001)},
    {"name": "adam", "weight_decay": (0, 0.001), "beta1": (0.9, 0), "epsilon": (1e-8, 1e-5)},
    {"name": "adamw", "weight_decay": (0, 0.01)},
    {"name": "adagrad"},
)
SCHEDULES = ({}, {"name": "cosine", "final_factor": (0, 0.5)}, {"name": "step", "milestones": ([0.5], [1, 1.5]), "gamma": (0.1, 1)})

BOTH_WAYS = ("ring", "line", "grid2d", "torus2d", "torus3d", "hypercube", "star", "complete", "random_regular")
FIXED = (*BOTH_WAYS, "exponential", "file")
CHANGING = ("one_peer_exponential", "random_matching", "rotating_exponential")
ANY = FIXED + CHANGING
EVERY = {"every": (1, 1, 3)}
MIXED = {"order": ("combine_then_adapt", "adapt_then_combine"), **EVERY}
MOMENTUM = {"momentum": ("local", "local", "averaged")}
CONTROL = {"every": (4, 8), "consensus_target": (0.5, 3)}

# [averager], graphs that it goes with, and keys of other tables.
AVERAGERS = (
    ({"name": "none", "global_every": (0, 3)}, FIXED, {}),
    ({"name": "allreduce", "codec": ("fp32", "bf16")}, FIXED, {}),
    ({"name": "neighbour", **MIXED}, ANY, {}),
    ({"name": "neighbour", **MIXED, **MOMENTUM}, FIXED, {}),
    ({"name": "neighbour", **MIXED, **MOMENTUM, "global_every": (2, 5)}, FIXED, {}),
    ({"name": "neighbour", **MIXED, **CONTROL, "global_every": (0, 6)}, ANY, {}),
    ({"name": "neighbour", **MIXED, "codec": ("bf16", "int8"), "consensus_step": (0, 0.3), **MOMENTUM}, FIXED, {}),
    ({"name": "neighbour", **MIXED, **CONTROL, "codec": ("bf16", "int8")}, FIXED, {}),
    ({"name": "neighbour", **MIXED, "codec": "top_k", "kept_share": (0.02, 0.3)}, FIXED, {}),
    ({"name": "neighbour", **MIXED, "staleness": (-1, 1, 2), "age_factor": (1, 0.5), **MOMENTUM}, FIXED, {}),
    ({"name": "neighbour", **MIXED, "staleness": -1}, FIXED, {"comm.inject.drop_fraction": 0.3}),
    ({"name": "neighbour", **MIXED, "staleness": (0, 1), "patience": (0.001, 1), "age_factor": (1, 0.5)}, FIXED, {}),
    ({"name": "hierarchical", **MIXED, "global_every": (0, 3)}, FIXED[:-1], {"comm.ranks_per_node": (0, 1)}),
    ({"name": "hierarchical", **MIXED, **CONTROL}, FIXED[:-1], {"comm.ranks_per_node": (0, 1)}),
    ({"name": "push_sum", "overlap": (False, True), **EVERY}, ANY, {"topology.weights": ("automatic", "automatic", "out_degree")}),
    ({"name": "push_sum", "staleness": -1, **EVERY}, FIXED, {}),
    ({"name": "ad_psgd", **EVERY}, BOTH_WAYS, {}),
    ({"name": "gossip_grad", "global_every": (0, 4)}, CHANGING, {}),
    ({"name": "easgd", "elasticity": (0.9, 0.3), **EVERY, "global_every": (0, 0, 4)}, FIXED, {}),
    ({"name": "easgd", **CONTROL}, FIXED, {}),
    ({"name": "fast", "staleness": (0, 0, -1), "sync_epochs": (0, 1, 2), **EVERY}, FIXED, {}),
    ({"name": "fast", "global_every": 3, **MOMENTUM}, FIXED, {}),
    ({"name": "fast", "sync_epochs": 0, **CONTROL}, FIXED, {}),
)

# [data], extents of an image, classes (0: real numbers), whether labels are per pixel, number of training images.
MADE = {"format": "synthetic", "synthetic_train": TRAIN, "synthetic_test": (TEST, 3, 1)}
DIGITS = {"format": "hdf5", "path": os.path.join(INPUTS, "digits.h5"), "mean": [0.3], "standard_deviation": [0.4]}
DATA = (
    (DIGITS, [8, 8], 10, False, 1438),
    ({"format": "idx", "path": "idx"}, [7, 6], 10, False, TRAIN),
    ({"format": "hdf5", "path": "pixels.h5", "cache_memory": (2000, 100000), "readers": (1, 3)}, [8, 6], 2, True, TRAIN),
    ({"format": "hdf5", "path": "numbers.h5", "cache_memory": (0, 2000, 100000)}, [6, 6], 0, False, TRAIN),
    ({**MADE, "synthetic_shape": [8, 8, 1], "synthetic_classes": 4}, [8, 8], 4, False, TRAIN),
    ({**MADE, "synthetic_shape": [12, 2], "synthetic_classes": 2}, [12], 2, False, TRAIN),
    ({**MADE, "synthetic_shape": [4, 6, 4, 1], "synthetic_classes": 3}, [4, 6, 4], 3, False, TRAIN),
    ({**MADE, "synthetic_shape": [8, 8, 1], "synthetic_classes": 2, "synthetic_labels": "pixel"}, [8, 8], 2, True, TRAIN),
    ({"format": "objects", "path": "objects.h5", "objects_field": 9, "objects_train": TRAIN, "objects_test": TEST,
      "objects_background": (0, 0.3)}, [9, 9, 9], 2, True, TRAIN),
)

KERNELS = ({"kernel": 3, "padding": 1}, {"kernel": 1}, {"kernel": 5, "padding": 2}, {"kernel": 3, "dilation": 2, "padding": 2})
NORMS = ([], [], [{"type": "batch_norm"}], [{"type": "group_norm", "groups": 2}], [{"type": "layer_norm"}])
ACTIVATIONS = ("relu", "relu6", "leaky_relu", "sigmoid", "tanh", "gelu", "silu")
HALVING = ({"type": "max_pool", "kernel": 2, "stride": 2}, {"type": "avg_pool", "kernel": 2, "stride": 2},
           {"type": "conv", "channels": 4, "kernel": 2, "stride": 2})
DOUBLING = ({"type": "upsample"}, {"type": "conv_transpose", "channels": 3, "kernel": 2, "stride": 2})

# What documents refuse of what is drawn.
REFUSALS = "|".join([
    r"averager\.\w+ applies only to (averager\.name|replicas that differ)",
    r"averager\.codec = .* codes differences of weights, but .* sends gradients",
    r"averager\.\w+ looks at all replicas at once, but .* always under way",
    r"averager\.momentum = \"averaged\" (averages the optimizer's buffers, but sgd has none|with averager\.codec)",
    r"averager\.\w+ = .* lets ranks run apart",
    r"averager\.\w+ = .* needs (neighbours that stay the same|what neighbours send in each step)",
    r"averager\.staleness = \d is a bound, but",
    r"averager\.patience is how long a late neighbour is waited for, but",
    r"averager\.consensus_target chooses the steps between exchanges, averager\.every = 1 leaves no choice",
    r"averager\.name = .* needs (neighbours that stay the same|another partner|a graph that does not change|edges both ways)",
    r"topology\.weights = \"out_degree\" applies only to averager\.name = \"push_sum\"",
    r"graph_\d\.toml:.* topology\.weights asks for computed ones",
    r"comm\.inject\.drop_fraction loses halos",
    r"comm\.inject\.slow_rank is 1, expected a rank below 1",
    r"comm\.transport is .* messages need the thread that comm\.progress_us = 0 forbids",
    r"data\.shuffle = \"ring\" passes batches from rank to rank",
    r"training\.shares = \"measured\" (distributes images one by one|deals batches beforehand|multiplies a rank's rate)",
    r"\[parallel\]: the ranks of a group cannot have different shares",
    r"parallel\.spatial: data\.pad_crop and data\.flip would move pixels",
    r"parallel\.\w+ = .*: the field of view of a flood-filling network moves by itself",
])


class Combination:
    """A run file, and the number of ranks that it is run on."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.keys = {"name": "gold", "network.name": "drawn", "training.threads": 1}
        data, self.extents, classes, self.per_pixel, self.images = self.one(DATA)
        self.add("data", data)
        self.add("training", {"epochs": (1, 2, 2, 3), "batch": tuple(n * self.images // TRAIN for n in (8, 13, 20, TRAIN))})
        self.add("output", {"checkpoint_steps": (0, 1, 3, 4), "keep": (1, 2, 100, 100)})
        for key, value in SELDOM.items():
            if self.chance.random() < 0.12:
                self.add(key, value)
        blocks = self.keys.get("parallel.spatial", [])
        if len(blocks) not in (0, len(self.extents)):
            blocks = self.keys.pop("parallel.spatial") and []
        self.group = max(math.prod(blocks), self.keys.get("parallel.channels", 1))
        self.replicas = self.one((1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 8)) if self.group == 1 else self.one((1, 2, 2))
        self.ranks = self.replicas * self.group
        self.add("optimizer", OPTIMIZERS)
        self.add("optimizer.learning_rate", (0.001, 0.01))
        self.add("schedule", SCHEDULES)
        averager, graphs, others = self.one(AVERAGERS)
        self.add("averager", averager)
        self.add("topology.kind", graphs)
        for key, value in others.items():
            self.add(key, value)
        if self.has("topology.kind", "file"):
            self.add("topology.file", f"graph_{self.replicas}.toml")
        if self.chance.random() < 0.1:  # a key of another averager may not go with this one's
            key, value = self.one(tuple(self.one(AVERAGERS)[0].items()))
            self.add(f"averager.{key}", value)
        self.draw_loss(classes)
        if self.has("data.format", "objects"):
            self.add("flood_filling", {"view": (5, 7), "move": 2, "visits": (1, 3), "move_threshold": 0.6})
        elif not self.per_pixel and len(self.extents) > 1 and self.chance.random() < 0.3:
            self.add("data", {"pad_crop": (0, 1), "flip": (False, True)})

    def one(self, choices):
        return self.chance.choice(choices)

    def add(self, key, value):
        """A key, or all keys of a table; of choices one."""
        if isinstance(value, tuple):
            value = self.one(value)
        if isinstance(value, dict):
            for name, each in value.items():
                self.add(f"{key}.{name}", each)
        else:
            self.keys[key] = value

    def has(self, key, *values):
        return self.keys.get(key) in values

    def draw_loss(self, classes):
        losses = {"cross_entropy": classes, "mean_squared_error": self.one((1, classes)), "binary_cross_entropy": 1}
        if classes == 0:
            losses = {"mean_squared_error": NUMBERS}
        elif classes > 2:
            del losses["binary_cross_entropy"]
        elif self.has("data.format", "objects"):
            losses = {"binary_cross_entropy": 1}
        name, outputs = self.one(tuple(losses.items()))
        self.add("loss.name", name)
        if name != "mean_squared_error" and self.chance.random() < 0.3:
            self.add("loss.label_smoothing", 0.1)
        self.keys["network.layer"] = self.layers(outputs)

    def layers(self, outputs):
        layers = []
        halves = not any(extent % 2 for extent in self.extents)
        for block in range(self.one((0, 1, 1, 2))):
            layers += [{"type": "conv", "channels": 4, "bias": self.one((True, False)), **self.one(KERNELS)}]
            layers += self.one(NORMS) + [{"type": self.one(ACTIVATIONS)}]
            if self.one((True, False, False)):
                layers += [{"type": "dropout", "probability": 0.2}]
            if halves and self.one((True, False)):
                layers += [self.one(HALVING)] + ([self.one(DOUBLING)] if self.per_pixel else [])
                halves = self.per_pixel
            if self.one((True, False, False)):
                a, b = f"a{block}", f"b{block}"
                layers += [{"type": "conv", "channels": 4, "name": a, "kernel": 3, "padding": 1},
                           {"type": "conv", "channels": 4, "name": b, "kernel": 1},
                           {"type": self.one(("add", "concat")), "inputs": [a, b]}]
        if self.per_pixel:
            return layers + [{"type": "conv", "channels": outputs, "kernel": 1}]
        layers += self.one(([], [{"type": "global_avg_pool"}])) + [{"type": "flatten"}]
        layers += self.one(([], [{"type": "dense", "channels": 12}, {"type": "tanh"}]))
        return layers + [{"type": "dense", "channels": outputs}]

    def text(self):
        return "".join(f"{key} = {toml(value)}\n" for key, value in sorted(self.keys.items()))

    @property
    def metric(self):
        return {"mean_squared_error": "error", "binary_cross_entropy": "iou"}.get(self.keys["loss.name"], "accuracy")

    @property
    def exact(self):
        """Whether values are rounded as floats are, wherever they lie. A codec codes each stretch of a replica by itself, and
        consensus_target sketches it by itself, to choose a period by what it estimates."""
        return (self.keys.get("averager.codec", "fp32") == "fp32" and "training.precision" not in self.keys
                and "averager.consensus_target" not in self.keys)

    @property
    def free(self):
        return self.replicas > 1 and (self.has("averager.name", "ad_psgd") or self.has("averager.staleness", -1)
                                      or self.keys.get("averager.patience", 0) > 0)

    @property
    def repeatable(self):
        apart = self.free or self.keys.get("averager.staleness", 0) > 0 or self.has("training.shares", "measured")
        return self.replicas == 1 or not apart


def toml(value):
    """JSON's strings, numbers and booleans are TOML's too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class CombinationsTest(FaultTest):
    def setUp(self):
        super().setUp()
        self.seconds = 0  # of the last run that nobody disturbed
        self.write_data()
        for ranks in range(1, 9):
            edges = sorted({(i, (i + hop) % ranks) for i in range(ranks) for hop in (1, 3) if hop % ranks})
            self.write(f"graph_{ranks}.toml", f"ranks = {ranks}\n" + "".join(
                f"[[edge]]\nfrom = {i}\nto = {j}\nweight = 0.25\n" for i, j in edges))

    def write_data(self):
        chance = np.random.default_rng(3)
        draw = lambda *shape: chance.integers(0, 256, shape, dtype=np.uint8)
        os.mkdir(self.path("idx"))
        for split, count in (("train", TRAIN), ("t10k", TEST)):
            images, labels = draw(count, 7, 6), np.arange(count, dtype=np.uint8) % 10
            for name, array in ((f"{split}-images-idx3-ubyte", images), (f"{split}-labels-idx1-ubyte", labels)):
                with open(self.path("idx", name), "wb") as file:
                    file.write(struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes())
        objects = np.zeros((2, 14, 12, 12), np.uint32)
        objects[:, :, 3:9, 3:9] = 1
        pixels, numbers, volumes = (h5py.File(self.path(name), "w") for name in ("pixels.h5", "numbers.h5", "objects.h5"))
        with pixels, numbers, volumes:
            for split, count in (("train", TRAIN), ("test", TEST)):
                images = draw(count, 8, 6, 2)
                pixels.create_dataset(f"{split}/images", data=images, chunks=(1, 8, 6, 2))
                pixels[f"{split}/labels"] = (images[..., 0] > 128).astype(np.uint8)
                pixels[f"{split}/labels"].attrs["classes"] = 2
                numbers.create_dataset(f"{split}/images", data=draw(count, 6, 6, 1), chunks=(1, 6, 6, 1))
                numbers[f"{split}/labels"] = chance.random((count, NUMBERS), np.float32)
                volumes[f"{split}/images"] = draw(2, 14, 12, 12, 1)
                volumes[f"{split}/objects"] = objects

    def check(self, seed):
        run = Combination(seed)
        with self.subTest(f"seed {seed}, {run.ranks} ranks\n{run.text()}"):
            self.write("run.toml", run.text())
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            checked = self.train(run.ranks, "--check")
            begin = time.monotonic()
            result = self.train(run.ranks, "--json")
            self.seconds = time.monotonic() - begin
            if checked.status != 0:
                self.check_refusal(checked, result)
                return
            self.assertEqual((result.status, result.err, checked.err), (0, "", ""), result)
            printed = json.loads(result.out)
            self.check_metrics(run, "gold", printed)
            self.check_checkpoint(run, printed)
            if run.group > 1 and run.repeatable and run.exact:
                self.check_as_single_ranks(run)
            run.one((self.check_stopped, self.check_ended, self.check_resumed, self.check_resumed_on_other_ranks,
                     self.check_resolved))(run)

    def train(self, ranks, *words, file="run.toml"):
        return self.run_program("train", file, *words, ranks=ranks)

    def train_to_the_end(self, ranks, *words, file="run.toml"):
        result = self.train(ranks, *words, file=file)
        self.assertEqual((result.status, result.err), (0, ""), result)
        return result.out

    def check_refusal(self, *results):
        """The same one message, for a reason that is documented, before anything was written."""
        for result in results:
            self.check_refused(result)
            self.assertEqual((result.status, result.err), (1, results[0].err))
            self.assertRegex(result.err, REFUSALS)
        self.assertFalse(os.path.exists(self.path("runs")))

    def check_metrics(self, run, name, printed=None, evaluated=True):
        """A row for each step and epoch, finite, each image once an epoch; the last is what was printed. `evaluated`: no stop
        has left an epoch's evaluation out."""
        metrics = read_metrics(self.path("runs", name, "metrics.h5"))
        epochs, batch = run.keys["training.epochs"], run.keys["training.batch"]
        steps = run.images // batch + (run.images % batch >= run.replicas)
        self.assertEqual(metrics["epoch/steps"].tolist(), [steps * epoch for epoch in range(1, epochs + 1)])
        self.assertEqual(metrics["epoch/images"].sum(axis=1).tolist(), epochs * [min(steps * batch, run.images)])
        self.assertEqual(metrics["step/loss"].shape, (steps * epochs, run.replicas))
        self.assertEqual(metrics["step/skipped"].sum(), 0)
        judged = ("epoch/test_loss", "epoch/mean_model_loss", "epoch/consensus_distance") if evaluated else ()
        for column in ("step/loss", "epoch/train_loss", *judged):
            self.assertTrue(np.isfinite(metrics[column]).all(), column)
        if printed is None:
            return
        self.assertEqual((printed["epochs"], printed["steps"], printed["stopped"]), (epochs, steps * epochs, ""))
        for column in ("mean_model_loss", f"mean_model_{run.metric}", "consensus_distance"):
            self.assertEqual(printed[column], metrics[f"epoch/{column}"][-1], column)
        if run.replicas == 1 or run.has("averager.name", "allreduce"):
            self.assertEqual(printed["consensus_distance"], 0)

    def check_checkpoint(self, run, printed):
        self.succeed_json("inspect", "runs/gold/metrics.h5")
        if run.has("output.checkpoint_epochs", 0):  # none at the end
            return
        checkpoint = "runs/gold/checkpoint.h5"
        self.assertEqual(self.succeed_json("inspect", checkpoint)["step"], printed["steps"])
        found = self.succeed_json("evaluate", checkpoint, ranks=run.one((1, 2, 3)))
        tolerance = 0.05 if "training.precision" in run.keys else 2e-5
        np.testing.assert_allclose(found["mean_model_loss"], printed["mean_model_loss"], rtol=tolerance)

    def check_as_single_ranks(self, run):
        """Groups train as single ranks do, to rounding."""
        self.write("single.toml", re.sub(r"(?m)^parallel.*\n", "", run.text()))
        self.train_to_the_end(run.replicas, *sets(name="single"), file="single.toml")
        group, single = (read_metrics(self.path(f"runs/{name}/metrics.h5"))["step/loss"] for name in ("gold", "single"))
        np.testing.assert_allclose(group, single, rtol=2e-3, atol=1e-5)

    def check_same(self, run):
        """runs/silver has ended as runs/gold has."""
        if run.has("output.checkpoint_epochs", 0):
            return
        if run.repeatable:
            self.assert_same_runs("", run.metric)
        for values, _ in read_replicas(self.path("runs/silver/checkpoint.h5")).values():
            self.assertTrue(np.isfinite(values).all())

    def check_stopped(self, run):
        """Stopped by the clock, at whatever step, twice; then resumed to the end."""
        words = ["--time-limit", 0.001, *run.one(([], ["--trace"]))]
        stops = 0
        for resume in ([], ["--resume"]):
            result = self.train(run.ranks, *sets(name="silver"), *words, *resume)
            self.assertIn((result.status, result.err), ((0, ""), (75, "")), result)
            stops += result.status != 0
        self.check_continued(run, stops > 0)

    def check_ended(self, run):
        """Ended by signals at whatever moment: all ranks are asked to stop, or one is killed; then resumed to the end."""
        process = self.start(["train", "run.toml", *sets(name="silver")], run.ranks)
        time.sleep(run.chance.uniform(0, self.seconds))
        ranks = ranks_below(process.pid)
        asked = run.one((True, False))
        for rank in ranks if asked else run.chance.sample(ranks, min(1, len(ranks))):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(rank, signal.SIGTERM if asked else signal.SIGKILL)
        process.wait(TIMEOUT)
        self.check_continued(run, "\nDone" not in self.log())

    def check_continued(self, run, stopped):
        """Resumed to the end of runs/silver, which may have been stopped or may have ended by itself."""
        self.train_to_the_end(run.ranks, *sets(name="silver"), "--resume")
        self.check_same(run)
        in_windows = run.has("data.format", "hdf5") or run.has("data.shuffle", "window")
        if not (run.free and stopped and in_windows):  # what is left of windows is skipped
            self.check_metrics(run, "silver", evaluated=not (run.free and stopped))

    def copy_of_its_middle(self, run):
        """Whether runs/silver is now what runs/gold was at one of its checkpoints, not the last."""
        checkpoints = self.path("runs/gold/checkpoints")
        names = sorted(os.listdir(checkpoints)) if os.path.isdir(checkpoints) else []
        if len(names) < 2:
            return False
        shutil.copytree(self.path("runs/gold"), self.path("runs/silver"), symlinks=True)
        for name in names[run.one(range(1, len(names))):]:
            os.remove(self.path("runs/silver/checkpoints", name))
        return True

    def check_resumed(self, run):
        if self.copy_of_its_middle(run):
            self.assertIn("Resumed from", self.train_to_the_end(run.ranks, *sets(name="silver"), "--resume"))
            self.check_same(run)
            self.check_metrics(run, "silver")

    def check_resumed_on_other_ranks(self, run):
        ranks = run.group * run.one([replicas for replicas in (1, 2, 3, 4) if replicas != run.replicas])
        if not run.has("topology.kind", "file") and self.copy_of_its_middle(run):
            out = self.train_to_the_end(ranks, *sets(name="silver", comm__inject__slow_rank=-1), "--resume")
            self.assertIn("all replicas start from the mean", out)
            with h5py.File(self.path("runs/silver/metrics.h5"), "r") as file:
                self.assertEqual(len(file["epoch/steps"]), run.keys["training.epochs"])

    def check_resolved(self, run):
        """The resolved run file, every key with its value, is the same run."""
        self.train_to_the_end(run.ranks, *sets(name="silver"), file="runs/gold/config.toml")
        self.check_same(run)
