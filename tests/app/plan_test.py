#!/usr/bin/env python3
"""halograd plan: what it recommends follows from the cluster and the data, and a wrong description is refused."""

import re

from program import DIGITS, ProgramTest, main

LENET = ["plan", "--network", "lenet5", "--batch", "8,32", "--seconds", "0.1"]
# A step whose computing takes 0.1 s on any machine: what is recommended does not depend on this one.
DIGITS_PLAN = ["plan", "--config", DIGITS, "--set", "comm.inject.compute_us=100000", "--batch", "8,32", "--seconds", "0.1",
               "--warm-up-steps", "5"]
# Several tests look at one plan: each measures memory and codecs for a second.
EVEN = ("--nodes", 4, "--batch", "8,32,256")
SPREAD = ("--nodes", 4, "--spread", 0.2)
FAILING = ("--mttf-hours", 24, "--checkpoint-seconds", 300, "--restart-seconds", 0)
SLOWEST = ("--nodes", 8, "--slowest", 4, *FAILING)
BOUNDED = ("--nodes", 4, "--max-batch", 40, *FAILING)
SLOW_NETWORK = ("--nodes", 4, "--bandwidth-gb", 1e-4, "--mttf-hours", 24, "--storage-gb", 0.001)


class Plan(ProgramTest):
    plans = {}

    def once(self, run, *words):
        key = (run.__name__, *words)
        if key not in self.plans:
            self.plans[key] = run(*DIGITS_PLAN, *words)
        return self.plans[key]

    def plan(self, *words):
        result = self.once(self.succeed_json, *words)
        self.assertIn(result["recommended"], result["candidates"])
        self.assertIsNone(result["recommended"]["refused"])
        return result

    def test_even_ranks_on_a_fast_network(self):
        pick = self.plan(*EVEN)["recommended"]
        self.assertEqual(pick["keys"]["averager.name"], '"allreduce"')
        self.assertNotIn("topology.kind", pick["keys"])

    def test_uneven_ranks_run_free(self):
        for words in (SPREAD, SLOWEST):
            pick = self.plan(*words)["recommended"]
            self.assertEqual(pick["way"], "free")
            self.assertEqual(pick["keys"]["averager.staleness"], "-1")

    def test_slow_networks_are_spared_bytes(self):
        """A replica takes 150 kB: 1.5 s at this bandwidth."""
        result = self.plan(*SLOW_NETWORK)
        allreduce = next(each for each in result["candidates"] if each["averager"] == "allreduce")
        self.assertLess(result["recommended"]["bytes_per_step"], allreduce["bytes_per_step"] / 2)
        self.assertLess(result["recommended"]["step_seconds"], allreduce["step_seconds"] / 2)

    def test_a_transport_that_takes_computing_is_spared_bytes(self):
        result = self.plan(*EVEN, "--transport-ns", 200)
        self.assertAlmostEqual(result["transport_seconds_per_byte"], 200e-9)
        allreduce = next(each for each in result["candidates"] if each["averager"] == "allreduce")
        self.assertLess(result["recommended"]["bytes_per_step"], allreduce["bytes_per_step"] / 2)

    def test_the_batch_is_bounded_by_the_noise_scale(self):
        result = self.plan(*EVEN)
        self.assertIn("gradient noise scale", result["most_batch_reason"])
        too_large = [each for each in result["candidates"]
                     if 4 * each["batch_per_replica"] > result["most_batch"] and each["batch_per_replica"] > 8]
        self.assertTrue(too_large, result["most_batch"])
        self.assertTrue(all(each["refused"] for each in too_large))

    def test_a_given_bound(self):
        out = self.once(self.succeed, *BOUNDED)
        self.assertIn("training.batch = 32\n", out)
        self.assertIn("training.batch is at most 40: as asked for (--max-batch)", out)

    def test_the_table_is_short_unless_all_is_asked_for(self):
        short = self.once(self.succeed, *BOUNDED)
        self.assertEqual(len(re.findall(r"^[ *](?:neighbour|push_sum|allreduce) ", short, re.MULTILINE)), 10, short)
        self.assertEqual(len(re.findall(r"^\*", short, re.MULTILINE)), 1, short)
        whole = self.succeed(*DIGITS_PLAN, "--nodes", 8, "--max-batch", 1000, "--all")
        self.assertGreater(len(re.findall(r"^[ *](?:neighbour|push_sum|allreduce) ", whole, re.MULTILINE)), 40, whole)
        self.assertIn("mixes too slowly", whole)

    def test_what_is_recommended_can_be_trained(self):
        keys = self.plan(*SPREAD)["recommended"]["keys"]
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        self.succeed("train", DIGITS, "--check", *words, ranks=4)

    def test_groups_of_ranks(self):
        """Two ranks share a replica: each sends half of the parameters to the other, as gradients and again as weights, and edges."""
        words = ("--set", "parallel.spatial=[2,1]", "--bandwidth-gb", 1, "--latency-us", 1000)
        result = self.plan("--nodes", 8, "--max-batch", 1000, *words)
        self.assertEqual((result["ranks"], result["group_ranks"]), (8, 2))
        for batch in result["batches"]:
            self.assertGreater(batch["group_exchanges"], 4)
            self.assertGreater(batch["group_bytes"], 4 * result["parameters"])
            self.assertLess(batch["group_bytes"], 5 * 4 * result["parameters"])
            network = 2e-3 * batch["group_exchanges"] + 1e-9 * batch["group_bytes"]
            self.assertAlmostEqual(batch["step_seconds"], 0.1 + network, delta=1e-6)
        pick = result["recommended"]
        self.assertEqual(pick["keys"]["training.batch"], str(4 * pick["batch_per_replica"]))
        self.assertTrue(any(each["way"] == "free" for each in result["candidates"]))
        out = self.succeed(*DIGITS_PLAN, "--nodes", 1, "--ranks-per-node", 2, "--max-batch", 4, *words)
        self.assertIn("groups of 2 ranks share a replica", out)
        self.assertIn("NOTE: even the smallest batch measured is more than that over 1 replica", out)
        self.assertIn("One replica has nothing to average", out)
        self.refuse(*DIGITS_PLAN, "--nodes", 3, *words, ranks=1,
                    words=["3 nodes of 1 rank for groups of 2 ranks; expected whole groups"])

    def test_a_cluster_from_a_file(self):
        path = self.write("cluster.toml", "nodes = 4\nranks_per_node = 2\nbandwidth_gb = 1.5\ntransport_ns = 2\nspread = 0.1\n")
        out = self.succeed(*LENET, "--cluster", path, "--nodes", 3)
        self.assertIn("lenet5 on 3 nodes of 2 ranks, latency 2 us, 1.5 GB/s per node, 2 ns of computing per byte", out)
        self.assertIn("spread 10 % from step to step", out)
        self.assertIn("training.batch is at most 1024: 16 times the usual batch", out)

    def test_checkpoints_for_a_mean_time_to_failure(self):
        """5 minutes a day: 120 minutes by Young, 116.69 by Daly."""
        result = self.plan(*SLOWEST)
        checkpoints, step = result["checkpoints"], result["recommended"]["step_seconds"]
        self.assertAlmostEqual(checkpoints["young_seconds"], 7200)
        self.assertAlmostEqual(checkpoints["daly_seconds"], 60 * 116.689815, places=3)
        self.assertEqual(checkpoints["steps"], round(checkpoints["daly_seconds"] / step))
        self.assertAlmostEqual(checkpoints["lost_share"], 5 / 121.69 + 121.69 / 2 / 1440, delta=0.004)
        self.assertRegex(self.once(self.succeed, *BOUNDED),
                         r"\nCheckpoints of 1\.84 MB, 300 s each: every 7001 s by Daly \(7200 s by Young\), "
                         r"output\.checkpoint_steps = \d+ or checkpoint_minutes = [\d.]+; "
                         r"with a failure every 24 h, 8\.\d\d % of the time is lost\.\n")
        estimated = self.plan(*SLOW_NETWORK)["checkpoints"]
        self.assertEqual(estimated["bytes"], 4 * 3 * 4 * 38330)
        self.assertAlmostEqual(estimated["checkpoint_seconds"], estimated["bytes"] / 1e6)
        self.assertNotIn("checkpoints", self.plan(*EVEN))

    def test_refusals(self):
        path = self.write("cluster.toml", "nodes = 4\nrank_per_node = 2\n")
        self.refuse(*LENET, "--cluster", path, words=["cluster.toml:2:1", "rank_per_node", "ranks_per_node"], ranks=1)
        path = self.write("cluster.toml", "nodes = 0\n")
        self.refuse(*LENET, "--cluster", path, words=["nodes is 0, must be at least 1"], ranks=1)
        self.refuse(*LENET, "--cluster", "none.toml", words=["none.toml: cannot be opened"], ranks=1)
        self.refuse("plan", "--network", "lenet", words=["lenet"], ranks=1)
        self.refuse("plan", "--nodes", 4, words=["expected either --network"], ranks=1)
        for words in (["--mttf-hours", 0], ["--checkpoint-seconds", 1]):
            self.assertIn("--mttf-hours", self.run_program(*LENET, *words).err)
        self.refuse(*LENET, "--nodes", 100000, words=["expected at most 65536"], ranks=1)
        self.refuse(*LENET, words=["plan measures one rank, but 2 were started"], ranks=2)
        self.refuse(*LENET, "--nodes", 2, "--memory-gb", 0.000001, words=["fit into a node's memory"], ranks=1)
        self.refuse(*DIGITS_PLAN, "--set", "training.batch=1000", words=["gradient noise scale needs 8 batches"], ranks=1)


if __name__ == "__main__":
    main()
