"""Training on several hosts held against training on one; shared by the short and the long test."""

import re

from lab_tests import DIGITS, PROGRAM, LabTest, read_metrics, sets

# How each averager is run. Ranks in lockstep give the same bits wherever they are; `accuracy`: what the mean model reaches
# on the test set at least, on one host or on several, where ranks do not wait for each other.
AVERAGERS = {
    "none": [{}],
    "allreduce": [{}],
    "neighbour": [{}, {"averager.order": "adapt_then_combine"}, {"averager.codec": "int8"}, {"averager.staleness": -1}],
    "push_sum": [{"topology.kind": "exponential"}, {"topology.kind": "one_peer_exponential"}],
    "ad_psgd": [{}],
    "gossip_grad": [{"topology.kind": "one_peer_exponential"}],
    "easgd": [{}],
    "fast": [{}],
    "hierarchical": [{}],
}
FREE = [("ad_psgd", {}), ("neighbour", {"averager.staleness": -1})]
LOCKSTEP_EPOCHS, FREE_EPOCHS = 1, 8
FREE_ACCURACY = 0.93


class TrainingRuns(LabTest):
    def train(self, name, settings, ranks_per_host=1, hosts=None):
        """Trains on the cluster's first hosts; the bytes that the first one has sent."""
        before = self.lab.sent_bytes(0)
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        result = self.lab.run([PROGRAM, "train", DIGITS, *sets(name=name, output__print_steps=0), *words, "--overwrite"],
                              ranks_per_host, self.folder, hosts=hosts)
        self.assertEqual((result.status, result.err), (0, ""), f"{settings} on {hosts} hosts\n{result.out}")
        return self.lab.sent_bytes(0) - before

    def accuracy(self, name):
        return read_metrics(self.path("runs", name, "metrics.h5"))["epoch/mean_model_accuracy"][-1]

    def check_averagers(self, hosts):
        for averager, choices in AVERAGERS.items():
            for choice in choices:
                with self.subTest(averager=averager, **choice):
                    self.check(averager, choice, hosts)

    def check(self, averager, choice, hosts):
        free = (averager, choice) in FREE
        settings = {"averager.name": averager, "training.epochs": FREE_EPOCHS if free else LOCKSTEP_EPOCHS, **choice}
        # Two ranks per host where the averager makes a difference between a host and the network.
        per_host = 2 if averager == "hierarchical" else 1
        sent = self.train("silver", settings, per_host, hosts)
        model = 153e3  # bytes
        if averager != "none":
            self.assertGreater(sent, 10 * model)
        if free:
            self.assertGreater(self.accuracy("silver"), FREE_ACCURACY)
            return
        on_one_host = {"comm.force_put": "true"} if averager != "hierarchical" else {"comm.ranks_per_node": per_host}
        self.train("gold", {**settings, **on_one_host}, per_host * hosts, 1)
        self.assert_same_runs(f"{averager} {choice} on {hosts} hosts")

    def check_all_are_there(self):
        """The program's own list of averagers is in AVERAGERS."""
        result = self.lab.run([PROGRAM, "train", DIGITS, *sets(averager__name="nobody")], 1, self.folder, hosts=1)
        self.assertEqual(result.status, 1, result.out)
        self.assertEqual(sorted(re.findall(r'"(\w+)"', result.err.split("must be one of")[1].split("\n")[0])),
                         sorted(AVERAGERS))
