#!/usr/bin/env python3
"""halograd plan: what it recommends follows from the cluster, and a description that is wrong is refused."""

import re

from program import ProgramTest, main

QUICK = ["plan", "--network", "lenet5", "--batch", "8,32", "--seconds", "0.1"]


class Plan(ProgramTest):
    def recommended(self, *words):
        out = self.succeed(*QUICK, *words, ranks=0)
        batch = int(re.search(r"training\.batch = (\d+)", out).group(1))
        every = int(re.search(r"averager\.every = (\d+)", out).group(1))
        return batch, every, out

    def test_slow_networks_exchange_less_often(self):
        """240 kB in 0.24 s: far more than a step of these takes, on any machine."""
        batch, every, out = self.recommended("--nodes", 8, "--bandwidth-gb", 0.001)
        self.assertIn(batch, (64, 256))
        self.assertGreater(every, 1)
        self.assertIn("neighbour", out)
        self.assertIn("ring_allreduce", out)

    def test_a_cluster_from_a_file(self):
        path = self.write("cluster.toml", "nodes = 4\nranks_per_node = 2\nbandwidth_gb = 1.5\n")
        out = self.succeed(*QUICK, "--cluster", path, "--nodes", 3, ranks=0)
        self.assertIn("lenet5 on 3 nodes of 2 ranks, latency 2 us, 1.5 GB/s per node", out)

    def test_refusals(self):
        path = self.write("cluster.toml", "nodes = 4\nrank_per_node = 2\n")
        self.refuse(*QUICK, "--cluster", path, words=["cluster.toml:2:1", "rank_per_node", "ranks_per_node"], ranks=1)
        path = self.write("cluster.toml", "nodes = 0\n")
        self.refuse(*QUICK, "--cluster", path, words=["nodes is 0, must be at least 1"], ranks=1)
        self.refuse(*QUICK, "--cluster", "none.toml", words=["none.toml: cannot be opened"], ranks=1)
        self.refuse("plan", "--network", "lenet", words=["lenet"], ranks=1)
        self.refuse(*QUICK, "--nodes", 100000, words=["expected at most 65536"], ranks=1)
        self.refuse(*QUICK, words=["plan measures one rank, but 2 were started"], ranks=2)
        self.refuse(*QUICK, "--nodes", 2, "--memory-gb", 0.000001, words=["fit into a node's memory"], ranks=1)


if __name__ == "__main__":
    main()
