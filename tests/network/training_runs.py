"""Training on several hosts held against training on one; shared by the short test and the long one, which has more ways."""

import re

from lab_tests import DIGITS, PROGRAM, LabTest, read_metrics, said_by_ranks, sets

# How each averager is run.
AVERAGERS = {
    "none": [{}],
    "allreduce": [{}],
    "neighbour": [{}, {"comm.transport": "send"}, {"averager.staleness": -1}],
    "push_sum": [{"topology.kind": "exponential"}],
    "ad_psgd": [{}],
    "gossip_grad": [{"topology.kind": "one_peer_exponential"}],
    "easgd": [{}],
    "fast": [{}],
    "hierarchical": [{}],
}
FREE_FAST = {"averager.staleness": -1, "optimizer.learning_rate": 0.02}  # of up to 3 steps per batch
MORE = {
    "neighbour": [{"averager.order": "adapt_then_combine"}, {"averager.codec": "int8"}, {"averager.patience": 0.01}],
    "push_sum": [{"topology.kind": "one_peer_exponential"}, {"topology.kind": "exponential", "averager.staleness": -1}],
    "fast": [FREE_FAST],
}
# Ranks in lockstep give the same bits wherever they are. Where they do not wait for each other, the mean model reaches this
# on the test set at least; that each takes its part in it, however they share cores, they sleep until a step has taken so long.
FREE_ACCURACY = 0.93


def is_free(averager, choice):
    return averager == "ad_psgd" or choice.get("averager.staleness") == -1 or "averager.patience" in choice


class TrainingRuns(LabTest):
    LOCKSTEP, FREE = {"training.epochs": 1}, {"training.epochs": 8, "comm.inject.compute_us": 5000}
    gold = None  # settings of the run of that name

    @staticmethod
    def words(name, settings):
        """The command that trains."""
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return [PROGRAM, "train", DIGITS, *sets(name=name, output__print_steps=0), *words, "--overwrite"]

    def train(self, name, settings, ranks_per_host=1, hosts=None):
        """Trains on the cluster's first hosts; the bytes that the first one has sent."""
        before = self.lab.sent_bytes(0)
        result = self.lab.run(self.words(name, settings), ranks_per_host, self.folder, hosts=hosts)
        self.assertEqual((result.status, said_by_ranks(result.err)), (0, []), f"{settings} on {hosts} hosts\n{result.out}")
        return self.lab.sent_bytes(0) - before

    def accuracy(self, name):
        return read_metrics(self.path("runs", name, "metrics.h5"))["epoch/mean_model_accuracy"][-1]

    def check_averagers(self, averagers, hosts):
        for averager, choices in averagers.items():
            for choice in choices:
                with self.subTest(averager=averager, **choice):
                    self.check(averager, choice, hosts)

    def check_every_way(self, hosts):
        self.check_averagers(AVERAGERS, hosts)
        self.check_averagers(MORE, hosts)

    def check(self, averager, choice, hosts):
        free = is_free(averager, choice)
        settings = {"averager.name": averager, **(self.FREE if free else self.LOCKSTEP), **choice}
        # Two ranks per host where the averager makes a difference between a host and the network.
        per_host = 2 if averager == "hierarchical" else 1
        sent = self.train("silver", settings, per_host, hosts)
        model = 153e3  # bytes
        if averager != "none":
            self.assertGreater(sent, 10 * model)
        if free:
            self.assertGreater(self.accuracy("silver"), FREE_ACCURACY)
            return
        self.train_on_one_host(averager, settings, per_host, hosts)
        self.assert_same_runs(f"{averager} {choice} on {hosts} hosts")

    def train_on_one_host(self, averager, settings, per_host, hosts):
        """With as many ranks as there are on so many."""
        on_one_host = {"comm.force_put": "true"} if averager != "hierarchical" else {"comm.ranks_per_node": per_host}
        gold = {**settings, **on_one_host, "comm.transport": "put"}
        if gold != self.gold:
            self.train("gold", gold, per_host * hosts, 1)
            self.gold = gold

    def check_through_slurm(self, hosts):
        """All that are joined, started by srun."""
        settings = {"averager.name": "neighbour", **self.LOCKSTEP}
        self.train_on_one_host("neighbour", settings, 1, hosts)  # before the Slurm, which the launcher's runs would end
        run = self.slurm_cluster().start(self.words("silver", settings), 1, self.folder)
        result = run.wait()
        self.assertEqual((result.status, said_by_ranks(result.err)), (0, []), run.text())
        self.assertRegex(result.out, rf"ranks +{hosts} on {hosts} nodes")
        self.assert_same_runs(f"by srun on {hosts} hosts")

    def check_all_are_there(self):
        """The program's own list of averagers is in AVERAGERS."""
        result = self.lab.run([PROGRAM, "train", DIGITS, *sets(averager__name="nobody")], 1, self.folder, hosts=1)
        self.assertEqual(result.status, 1, result.out)
        self.assertEqual(sorted(re.findall(r'"(\w+)"', result.err.split("must be one of")[1].split("\n")[0])),
                         sorted(AVERAGERS))
