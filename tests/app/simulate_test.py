#!/usr/bin/env python3
"""halograd simulate: its table agrees with formulas, its picture is drawn, and bad arguments are refused."""

import csv
import math
import os
import sys

from program import SOURCE, ProgramTest, drawing, execute, main

SCRIPT = os.path.join(SOURCE, "jobscripts", "plot_simulation.py")
GIVEN = ("--latency-us", "1", "--bandwidth-gb", "10", "--memory-gb", "1e6", "--compute-ms", "10", "--parameters", "25e6")


class Simulate(ProgramTest):
    def simulate(self, *words, ranks=0, given=GIVEN):
        out = self.succeed("simulate", *given, "--csv", self.path("table.csv"), *words, ranks=ranks)
        with open(self.path("table.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return out, {(int(row["ranks"]), row["averager"], row["topology"]): row for row in rows}

    def test_figures_by_hand(self):
        out, rows = self.simulate("--ranks", "8,1024", "--topology", "ring,hypercube")
        self.assertEqual(len(rows), 10)
        self.assertIn("sparse products", out)
        ring = rows[8, "neighbour", "ring"]
        self.assertAlmostEqual(float(ring["spectral_gap"]), 1 - (1 + math.sqrt(2)) / 3, places=6)
        self.assertEqual(float(ring["bytes_sent"]), 2e8)
        # 2 us and 20 ms, of which 10 are hidden; reading two halos in memory takes 0.2 us
        self.assertAlmostEqual(float(ring["exchange_seconds"]), 0.020002, places=7)
        self.assertAlmostEqual(float(ring["step_seconds"]), 0.0200022, places=7)
        large = rows[1024, "neighbour", "ring"]
        self.assertAlmostEqual(float(large["spectral_gap"]), 2 / 3 * (1 - math.cos(2 * math.pi / 1024)), delta=1e-8)
        self.assertEqual(large["steps_to_consensus"], "")  # more than are simulated
        self.assertAlmostEqual(float(rows[1024, "neighbour", "hypercube"]["spectral_gap"]), 2 / 11, places=4)
        self.assertEqual(rows[1024, "gossip", "one_peer_exponential"]["steps_to_consensus"], "10")
        allreduce = rows[1024, "ring_allreduce", ""]
        self.assertAlmostEqual(float(allreduce["exchange_seconds"]), 2046e-6 + 2 * 1023 / 1024 * 0.01 + 3e-7, places=7)

    def test_averagers_and_codecs(self):
        """A model of 100 MB: int8 sends 260 bytes for 1024, push-sum begins when the step has been made."""
        ring = self.simulate("--ranks", "8", "--topology", "ring", "--set", "averager.codec=int8")[1][8, "neighbour", "ring"]
        self.assertAlmostEqual(float(ring["bytes_sent"]), 2e8 * 260 / 1024, delta=1e3)
        self.assertAlmostEqual(float(ring["exchange_seconds"]), 0.020 * 260 / 1024 + 2e-6, places=6)
        words = ("--ranks", "8", "--topology", "ring", "--set", "averager.name=push_sum")
        self.assertAlmostEqual(float(self.simulate(*words)[1][8, "push_sum", "ring"]["step_seconds"]), 0.030, delta=1e-4)
        words += ("--set", "averager.overlap=true")
        self.assertAlmostEqual(float(self.simulate(*words)[1][8, "push_sum", "ring"]["step_seconds"]), 0.020, delta=1e-4)

    def test_mixing_by_hand(self):
        """Steps between exchanges, exchanges that go part of the way, push-sum's shares where degrees are uneven."""
        words = ("--ranks", "8", "--topology", "ring")
        ring = self.simulate(*words)[1][8, "neighbour", "ring"]
        _, rows = self.simulate(*words, "--every", "4")
        self.assertEqual(int(rows[8, "neighbour", "ring"]["steps_to_consensus"]), 4 * int(ring["steps_to_consensus"]))
        self.assertEqual(rows[8, "gossip", "one_peer_exponential"]["steps_to_consensus"], "12")
        _, rows = self.simulate(*words, "--set", "averager.codec=top_k", "--set", "averager.kept_share=0.1")
        sparse = rows[8, "neighbour", "ring"]
        self.assertAlmostEqual(float(sparse["spectral_gap"]), 0.2 * float(ring["spectral_gap"]), places=6)
        self.assertGreater(int(sparse["steps_to_consensus"]), 4 * int(ring["steps_to_consensus"]))
        words = ("--ranks", "64", "--topology", "star,exponential", "--set", "averager.name=push_sum")
        _, rows = self.simulate(*words)
        self.assertEqual(rows[64, "push_sum", "star"]["spectral_gap"], "")
        self.assertLess(int(rows[64, "push_sum", "star"]["steps_to_consensus"]), 20)  # each halves the distance
        self.assertNotEqual(rows[64, "push_sum", "exponential"]["spectral_gap"], "")

    def test_uneven_ranks(self):
        fast = ("--latency-us", "1", "--bandwidth-gb", "1000", "--memory-gb", "1e6", "--compute-ms", "10", "--parameters", "25e6")
        words = ("--ranks", "8", "--topology", "ring", "--slowest", "3")
        _, rows = self.simulate(*words, given=fast)
        for row in rows.values():
            self.assertAlmostEqual(float(row["step_seconds"]), 0.030, delta=1e-3)
        _, rows = self.simulate(*words, "--set", "averager.staleness=-1", given=fast)
        self.assertAlmostEqual(float(rows[8, "neighbour", "ring"]["step_seconds"]), 8 / (7 / 0.010 + 1 / 0.030), delta=1e-4)
        _, rows = self.simulate("--ranks", "100", "--topology", "ring", "--spread", "0.1", given=fast)
        self.assertAlmostEqual(float(rows[100, "tree_allreduce", ""]["step_seconds"]), 0.0125, delta=1e-4)  # 2.51 of 0.1
        self.assertLess(float(rows[100, "neighbour", "ring"]["step_seconds"]), 0.011)

    def test_latency_is_measured_between_two_ranks(self):
        out = self.succeed("simulate", "--ranks", "8", "--topology", "ring", "--memory-gb", "10", "--threads", "1",
                           ranks=2)
        self.assertEqual(out.count("measured between the first and the last rank"), 3, out)

    def test_a_transport_takes_computing(self):
        """2 ms for the 200 MB that a rank sends."""
        fast = ("--latency-us", "1", "--bandwidth-gb", "1000", "--memory-gb", "1e6", "--compute-ms", "10", "--parameters", "25e6")
        _, rows = self.simulate("--ranks", "8", "--topology", "ring", "--transport-ns", "0.01", given=fast)
        self.assertAlmostEqual(float(rows[8, "neighbour", "ring"]["step_seconds"]), 0.012, delta=1e-4)

    def test_a_network_is_measured(self):
        out = self.succeed("simulate", "--ranks", "8", "--topology", "ring", "--memory-gb", "10", "--threads", "1",
                           "--network", "lenet5", "--batch", "4")
        self.assertIn("measured here", out)
        self.assertIn("1.724 MB", out)  # 431,080 parameters

    def test_picture(self):
        self.simulate("--ranks", "8,64,512", "--topology", "ring,torus2d,exponential")
        result = execute([sys.executable, SCRIPT, "table.csv"], self.folder, drawing())
        self.assertEqual((result.status, result.err, result.out), (0, "", "table.png\n"))
        with open(self.path("table.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")

    def test_refusals(self):
        for words, message in (
                (("--topology", "moebius"), '--topology is "moebius"; expected one of ring'),
                (("--topology", "complete", "--ranks", "4096"), "expected at most 1024 ranks"),
                (("--topology", "random_regular", "--degree", "3"), "expected an even number"),
                (("--set", "averager.name=ad_psgd"), "expected an averager that exchanges weights"),
                (("--set", "averager.name=allreduce"), "expected an averager that exchanges weights"),
                (("--set", "averager.name=easgd"), "expected an averager that exchanges weights"),
                (("--set", "averager.global_every=8"), "exact averages are not simulated"),
                (("--set", "averager.codecs=int8"), 'did you mean "codec"?'),
                (("--network", "lenet"), 'did you mean "lenet5"?')):
            self.refuse("simulate", "--threads", "1", *words, words=[message], ranks=0)
        self.assertGreater(self.run_program("simulate", "--ranks", "100000").status, 0)


if __name__ == "__main__":
    main()
