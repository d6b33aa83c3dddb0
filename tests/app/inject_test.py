#!/usr/bin/env python3
"""Stragglers, latency and losses that are injected, as /edge of the metrics and standard error tell of them."""

import h5py
import numpy as np

from program import ProgramTest, main, sets

RUN_FILE = """name = "run"
training.epochs = 2
training.batch = 32
data.format = "synthetic"
data.synthetic_train = 256
data.synthetic_test = 32
data.synthetic_shape = [8, 8, 1]
network.name = "small"
[[network.layer]]
type = "flatten"
[[network.layer]]
type = "dense"
channels = 10
[output]
checkpoint_epochs = 0
"""
STEPS = 8


class Injected(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_file = self.write("run.toml", RUN_FILE)

    def edges(self, ranks, partners_change=False, free=False, **settings):
        result = self.run_program("train", self.run_file, *sets(**settings), ranks=ranks)
        self.assertEqual(result.status, 0, result.err)
        folder = settings.get("output__folder", "runs")
        with h5py.File(self.path(f"{folder}/run/metrics.h5"), "r") as file:
            table = {name: file["edge"][name][()] for name in file["edge"]}
        if table["epoch"].size and not partners_change:
            mixes = table["staleness"].sum(axis=1) + table["left_out"]
            if free:  # all ranks together make the steps of all, on each of the edges of a ring
                degree = 2 if ranks > 2 else 1
                for epoch in (0, 1):
                    self.assertEqual(mixes[table["epoch"] == epoch].sum(), degree * ranks * STEPS)
            else:
                np.testing.assert_array_equal(mixes, STEPS)
        return table, result.err

    def test_every_halo_of_a_synchronous_run(self):
        edges, err = self.edges(4)
        self.assertEqual(err, "")
        # two epochs, four ranks on a ring, each with two neighbours
        self.assertEqual(edges["epoch"].tolist(), [0] * 8 + [1] * 8)
        self.assertEqual(edges["to"].tolist(), [0, 0, 1, 1, 2, 2, 3, 3] * 2)
        self.assertEqual(edges["from"].tolist(), [1, 3, 0, 2, 1, 3, 0, 2] * 2)
        self.assertEqual(edges["halos"].tolist(), [STEPS] * 16)
        self.assertEqual(edges["staleness"][:, 0].tolist(), [STEPS] * 16)
        self.assertEqual(edges["skipped"].tolist(), [0] * 16)
        self.assertEqual(edges["bytes"].tolist(), [STEPS * 4 * (8 * 8 * 10 + 10)] * 16)
        self.assertTrue((edges["least_delay_seconds"] <= edges["delay_seconds"]).all())

    def test_a_slow_rank_is_named_and_waited_for(self):
        edges, err = self.edges(3, comm__inject__slow_rank=1, comm__inject__slow_factor=2000,
                                comm__report_seconds=0.02, averager__order="adapt_then_combine")
        self.assertRegex(err, r"rank [02] waits for rank 1: version \d+, latest \d+, 0\.\d+ s")
        waits = [edges["wait_seconds"][(edges["from"] == rank) & (edges["to"] != 1)].sum() for rank in range(3)]
        self.assertEqual(np.argmax(waits), 1, waits)

    def test_nobody_waits_without_a_bound(self):
        edges, _ = self.edges(3, free=True, comm__inject__slow_rank=1, comm__inject__slow_factor=500,
                              averager__staleness=-1, comm__slots=3)
        self.assertEqual(edges["wait_seconds"].max(), 0)

    def test_latency(self):
        edges, _ = self.edges(2, comm__inject__latency_us=5000)
        self.assertGreaterEqual(edges["least_delay_seconds"].min(), 5e-3)

    def test_partners_that_change(self):
        for name, kind in (("push_sum", "one_peer_exponential"), ("gossip_grad", "rotating_exponential")):
            edges, _ = self.edges(4, True, averager__name=name, topology__kind=kind, comm__inject__latency_us=2000,
                                  output__folder=name)
            for epoch in (0, 1):
                for rank in range(4):
                    rows = (edges["epoch"] == epoch) & (edges["to"] == rank)
                    self.assertEqual(edges["halos"][rows].sum(), STEPS, (name, epoch, rank))
            self.assertTrue((edges["from"] != edges["to"]).all())
            self.assertGreaterEqual(edges["least_delay_seconds"].min(), 2e-3)
        # Each rank is to have steps of these few: computing takes longer than ranks are apart at the start.
        edges, _ = self.edges(4, True, averager__name="ad_psgd", comm__inject__latency_us=2000,
                              comm__inject__compute_us=20000, output__folder="pairs")
        self.assertEqual(edges["halos"].tolist(), edges["staleness"].sum(axis=1).tolist())
        answers = {(a, b): edges["halos"][(edges["from"] == a) & (edges["to"] == b)].sum()
                   for a in range(4) for b in range(4)}
        self.assertGreater(sum(answers.values()), 0)
        for (a, b), halos in answers.items():
            self.assertEqual(halos, answers[b, a], answers)  # each question has its answer
        self.assertGreaterEqual(edges["least_delay_seconds"][edges["halos"] > 0].min(), 2e-3)

    def test_losses(self):
        # Computing takes long against reading, so that halos are passed over because they are lost.
        edges, _ = self.edges(2, free=True, comm__inject__drop_fraction=0.5, comm__inject__compute_us=5000,
                              averager__staleness=-1, comm__slots=4)
        self.assertEqual(edges["epoch"].tolist(), [0, 0, 1, 1])
        halos, skipped = edges["halos"].sum(), edges["skipped"].sum()
        self.assertGreater(halos, 0)
        self.assertLess(halos, 0.75 * (halos + skipped))
        self.refuse("train", self.run_file, *sets(comm__inject__drop_fraction=0.5),
                    words=["comm.inject.drop_fraction loses halos", "a rank waits for them without end"])
        self.refuse("train", self.run_file, *sets(comm__inject__drop_fraction=0.5, averager__name="allreduce"),
                    words=['the averager "allreduce" needs everything that is sent'])

    def test_a_rank_that_there_is_not(self):
        self.refuse("train", self.run_file, *sets(comm__inject__slow_rank=2),
                    words=["comm.inject.slow_rank is 2, expected a rank below 2"])

    def test_no_edges_without_neighbours(self):
        edges, _ = self.edges(2, averager__name="allreduce", comm__inject__latency_us=100)
        self.assertEqual(edges["epoch"].size, 0)


if __name__ == "__main__":
    main()
