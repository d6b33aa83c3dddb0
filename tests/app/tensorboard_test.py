#!/usr/bin/env python3
"""jobscripts/tensorboard_events.py on runs of the program, read back by the format's definition."""

import importlib.util
import os
import struct
import sys
import unittest

from program import SOURCE, SYNTHETIC, ProgramTest, execute, main, read_metrics, sets

SCRIPT = os.path.join(SOURCE, "jobscripts", "tensorboard_events.py")


def read_events(folder):
    """{tag: {step: value}} of the only event file of a folder: records of length, checksum, Event and checksum."""
    from tensorboardX.proto import event_pb2

    name, = [name for name in os.listdir(folder) if name.startswith("events.out.tfevents.")]
    with open(os.path.join(folder, name), "rb") as file:
        data = file.read()
    found, at = {}, 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        event = event_pb2.Event.FromString(data[at + 12:at + 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
        at += 12 + length + 4
    return found


class Events(ProgramTest):
    def setUp(self):
        super().setUp()
        self.succeed("train", SYNTHETIC, ranks=2)

    def write_events(self, *arguments, **environment):
        return execute([sys.executable, SCRIPT, *arguments], self.folder, environment)

    @unittest.skipUnless(importlib.util.find_spec("tensorboardX"), "needs the Python package tensorboardX")
    def test_values(self):
        self.succeed("train", SYNTHETIC, *sets(name="other", training__epochs=1), ranks=1)
        for _ in range(2):  # the second call replaces what the first has written
            result = self.write_events("runs/synthetic", "runs/other/metrics.h5", "--output", "board")
            self.assertEqual((result.status, result.err), (0, ""), result.out)
        self.assertEqual(sorted(os.listdir(self.path("board"))), ["other", "synthetic"])
        for name in ("synthetic", "other"):
            metrics, events = read_metrics(self.path("runs", name, "metrics.h5")), read_events(self.path("board", name))
            steps, ends = len(metrics["step/loss"]), metrics["epoch/steps"].tolist()
            expected = {
                "step/loss": (range(1, steps + 1), metrics["step/loss"].mean(axis=1)),
                "step/images_per_second": (range(1, steps + 1), metrics["step/images_per_second"].sum(axis=1)),
                "epoch/mean_model_accuracy": (ends, metrics["epoch/mean_model_accuracy"]),
                "epoch/test_loss/highest": (ends, metrics["epoch/test_loss"].max(axis=1)),
                "epoch/consensus_distance": (ends, metrics["epoch/consensus_distance"]),
            }
            for tag, (at, values) in expected.items():
                self.assertEqual(sorted(events[tag]), list(at), tag)
                for step, value in zip(at, values):
                    self.assertAlmostEqual(events[tag][step], value, delta=1e-6 * abs(value), msg=tag)

    def test_refusals(self):
        os.makedirs(self.path("none"))
        with open(self.path("none", "tensorboardX.py"), "w", encoding="utf-8") as file:
            file.write("raise ImportError\n")
        result = self.write_events("runs/synthetic", PYTHONPATH=self.path("none"))
        self.assertEqual(result.status, 1)
        self.assertRegex(result.err, r"^tensorboard_events: needs the Python package tensorboardX.*\n$")
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["synthetic"])
        with open(self.path("none", "tensorboardX.py"), "w", encoding="utf-8") as file:
            file.write("SummaryWriter = None\n")
        for run, words in (("nowhere", "no such file"), ("runs/synthetic/checkpoint.h5", "halograd metrics")):
            result = self.write_events(run, PYTHONPATH=self.path("none"))
            self.assertEqual(result.status, 1)
            self.assertRegex(result.err, rf"^tensorboard_events: {run}.*{words}.*\n$")


if __name__ == "__main__":
    main()
