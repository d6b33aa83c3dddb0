#!/usr/bin/env python3
"""A Kokkos tool (region_logger.cpp) sees the regions that docs/profiling.md lists, no others, and each where the page has it."""

import glob
import os
import re
import unittest

from program import DIGITS, ON_DEVICES, SOURCE, VERSION, ProgramTest, main, sets

TOOL = os.environ.get("HALOGRAD_TEST_REGION_LOGGER")  # none beside sanitizers
KOKKOS = tuple(int(number) for number in re.search(r"Kokkos (\d+)\.(\d+)", VERSION).groups())
VARIABLE = "KOKKOS_TOOLS_LIBS" if KOKKOS >= (3, 7) else "KOKKOS_PROFILE_LIBRARY"  # newer ones comment on the older name
PAGE = os.path.join(SOURCE, "docs", "profiling.md")
LAYERS = ["conv1", "batch_norm1", "relu1", "conv2", "batch_norm2", "relu2", "max_pool1", "flatten1", "dense1", "relu3", "dense2"]
STEPS = 23


def listed():
    """The paths of the page's table, LAYER for the name of any."""
    with open(PAGE, encoding="utf-8") as file:
        return set(re.findall(r"^\| `([\w/]+)` \|", file.read(), re.MULTILINE))


@unittest.skipIf(TOOL is None, "built without the tool")
class Regions(ProgramTest):
    def regions(self, *words, ranks=2):
        """How often each path was open, on each rank; layers are LAYER, kernels are left out."""
        log = self.path("log")
        self.succeed(*words, ranks=ranks, environment={VARIABLE: TOOL, "REGION_LOG": log})
        found = []
        for name in glob.glob(log + ".*"):
            times = {}
            with open(name, encoding="utf-8") as file:
                for line in file:
                    _, count, path = line.rstrip("\n").split(" ", 2)
                    if "::" in path:
                        continue
                    path = "/".join("LAYER" if part in LAYERS else part for part in path.split("/"))
                    times[path] = times.get(path, 0) + int(count)
            os.remove(name)
            found.append(times)
        self.assertEqual(len(found), max(ranks, 1))
        return found

    def test_the_page_lists_the_regions_of_training(self):
        for name in ("neighbour", "allreduce"):
            words = sets(averager__name=name, training__epochs=1, training__step_recording="off")
            for times in self.regions("train", DIGITS, "--overwrite", *words):
                self.assertEqual(set(times), listed())
                for path in ("forward", "loss", "backward"):
                    self.assertEqual(times[path], STEPS, path)
                self.assertEqual(times["exchange/update"] % STEPS, 0)
                self.assertEqual((times["checkpoint"], times["evaluate"]), (1, 2))

    def test_a_free_pace_has_no_others(self):
        words = sets(averager__staleness=-1, training__epochs=1, training__step_recording="off")
        ranks = self.regions("train", DIGITS, *words)
        for times in ranks:
            self.assertLessEqual(set(times), listed())
            self.assertLessEqual({"next_batch", "evaluate", "checkpoint"}, set(times))
        # On a busy machine one rank may have drawn every part before the other has begun.
        self.assertLessEqual({"forward", "backward", "exchange/update"}, set().union(*ranks))

    @unittest.skipIf(ON_DEVICES, "the benchmark's steps are recorded there")
    def test_the_benchmark_has_steps_alone(self):
        words = ("--network", "lenet5", "--batch", "8", "--seconds", "0.1")
        times, = self.regions("benchmark", *words, ranks=0)
        self.assertLessEqual({"load", "forward", "loss", "backward", "update"}, set(times))


if __name__ == "__main__":
    main()
