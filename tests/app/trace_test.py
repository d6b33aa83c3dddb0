#!/usr/bin/env python3
"""--trace: a file that is JSON, spans that nest, all that a step does, and clocks that agree."""

import json
import os
import unittest
from collections import defaultdict

from program import IS_MPICH, ProgramTest, main, sets
from inject_test import RUN_FILE

STEPS, EPOCHS, RANKS = 8, 2, 3
ROUNDING = 0.0011  # microseconds: begin and length are rounded to a nanosecond each


class Trace(ProgramTest):
    def traced(self, environment=None, **settings):
        run = self.write("run.toml", RUN_FILE)
        words = ["train", run, "--overwrite", "--trace", *sets(output__checkpoint_epochs=1, **settings)]
        before = {name: os.environ.get(name) for name in environment or {}}
        os.environ.update(environment or {})
        try:
            out = self.succeed(*words, ranks=RANKS)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self.assertIn("runs/run/trace.json", out)
        with open(self.path("runs/run/trace.json"), encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual(trace["otherData"]["ranks"], RANKS)
        self.assertEqual(trace["otherData"]["spans_without_room"], 0)
        spans = defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                spans[event["pid"], event["tid"]].append(event)
        self.assertEqual({rank for rank, _ in spans}, set(range(RANKS)))
        for events in spans.values():
            self.check_nesting(events)
        return spans, trace["otherData"]["clock_offset_ns"]

    def check_nesting(self, events):
        """Each begins after the end of the one before, or lies within it."""
        open_until = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            self.assertGreaterEqual(event["ts"], -ROUNDING)
            self.assertGreaterEqual(event["dur"], 0)
            end = event["ts"] + event["dur"]
            while open_until and open_until[-1] <= event["ts"] + ROUNDING:
                open_until.pop()
            if open_until:
                self.assertLessEqual(end, open_until[-1] + ROUNDING, event)
            open_until.append(end)

    @staticmethod
    def named(spans, rank, name):
        return sorted((e for e in spans[rank, 0] if e["name"] == name), key=lambda e: e["ts"])

    def check_causes(self, spans, slack):
        """No halo is there before its put has begun: on a ring of three, each waits for all."""
        for rank in range(RANKS):
            waits = self.named(spans, rank, "wait")
            for step in range(STEPS * EPOCHS):
                end = max(e["ts"] + e["dur"] for e in waits[2 * step:2 * step + 2])
                for other in range(RANKS):
                    self.assertGreaterEqual(end + slack, self.named(spans, other, "put")[step]["ts"], (rank, other, step))

    def test_synchronous(self):
        spans, offsets = self.traced()
        self.assertEqual(offsets, [0] * RANKS)
        for rank in range(RANKS):
            steps = self.named(spans, rank, "step")
            self.assertEqual(len(steps), STEPS * EPOCHS)
            for name, count in (("compute", 1), ("put", 1), ("wait", 2), ("mix", 1), ("update", 1)):
                parts = self.named(spans, rank, name)
                self.assertEqual(len(parts), count * len(steps), name)
                for i, part in enumerate(parts):
                    step = steps[i // count]
                    self.assertGreaterEqual(part["ts"], step["ts"] - ROUNDING)
                    self.assertLessEqual(part["ts"] + part["dur"], step["ts"] + step["dur"] + ROUNDING)
            self.assertEqual(len(self.named(spans, rank, "evaluate")), EPOCHS)
            self.assertGreaterEqual(len([e for e in spans[rank, 1] if e["cat"] == "io"]), EPOCHS)
        self.check_causes(spans, 0.1)

    @unittest.skipUnless(IS_MPICH, "MPICH's switch")
    def test_clocks_of_nodes(self):
        """Each rank on a node of its own, as MPICH is told: the clocks are measured, and are in truth the same."""
        spans, offsets = self.traced({"MPIR_CVAR_NOLOCAL": "1"})
        self.assertNotEqual(offsets, [0] * RANKS)
        self.assertLess(max(abs(offset) for offset in offsets), 5e6)
        self.check_causes(spans, 1e-3 * max(abs(offset) for offset in offsets) * 2 + 0.1)

    def test_other_averagers(self):
        for settings in ({"averager__name": "allreduce"}, {"averager__staleness": -1, "comm__slots": 3},
                         {"comm__force_put": True, "averager__order": "adapt_then_combine"}):
            spans, _ = self.traced(**settings)
            steps = [len(self.named(spans, rank, "step")) for rank in range(RANKS)]
            self.assertEqual(sum(steps), RANKS * STEPS * EPOCHS)
            if "averager__staleness" not in settings:  # there each rank makes the steps that it can
                self.assertEqual(len(set(steps)), 1)

    def test_none_unless_asked_for(self):
        self.succeed("train", self.write("run.toml", RUN_FILE), ranks=2)
        self.assertFalse(os.path.exists(self.path("runs/run/trace.json")))


if __name__ == "__main__":
    main()
