#!/usr/bin/env python3
"""halograd train: what it learns, leaves and prints."""

import os
import pty
import re
import select
import subprocess
import time

import h5py
import numpy as np

from program import DIGITS, FILES, FLOAT, SYNTHETIC, TIMEOUT, ProgramTest, contents, launched, main, read_metrics, sets

QUICK = [SYNTHETIC, *sets(training__epochs=1)]
STEP_COLUMNS = ["averaging_period", "bytes_sent", "compute_seconds", "data_seconds", "images_per_second", "learning_rate", "loss",
                "progress_seconds", "rank", "samples", "skipped", "update_seconds", "wait_seconds"]
EPOCH_RANK_COLUMNS = ["evaluation_seconds", "images", "test_accuracy", "test_loss", "train_loss", "wait_seconds"]
INTEGERS = ["step/averaging_period", "step/bytes_sent", "step/rank", "step/samples", "step/skipped", "epoch/images", "epoch/steps"]
EPOCH_COLUMNS = ["consensus_distance", "mean_model_accuracy", "mean_model_loss", "seconds", "steps"]


class Digits(ProgramTest):
    """The whole of inputs/digits.toml once, looked at from all sides."""

    def test_learns_and_leaves_what_is_documented(self):
        out = self.succeed("train", DIGITS, "--set", "output.print_steps=10", ranks=4)
        self.check_printed(out)
        self.assertEqual(sorted(os.listdir(self.path("runs/digits"))), FILES)
        metrics = read_metrics(self.path("runs/digits/metrics.h5"))
        self.assertGreater(metrics["epoch/mean_model_accuracy"][-1], 0.97)
        self.assertGreater(metrics["epoch/test_accuracy"][-1].min(), 0.97)
        self.check_metrics(metrics)
        self.check_checkpoint(metrics)
        self.check_resolved_file()

    def check_printed(self, out):
        self.assertNotRegex(out, r"[\x00-\x09\x0b-\x1f\x7f]")  # no control character but the line feed
        for line in (r"ranks +4 on 1 node", r"device +\S+, \d+ threads? per rank",
                     r"data .*digits\.h5: 1438 \+ 359 images", r"network +digits_net, 38330 parameters",
                     r"topology +ring, 8 edges, spectral gap 0\.6667",
                     r"averager +neighbour", r"exchange +307 kB sent per rank and step"):
            self.assertRegex(out, r"(?m)^  " + line)
        columns = rf"{FLOAT} +{FLOAT} +{FLOAT}-{FLOAT} +{FLOAT} +{FLOAT} +\d+ +{FLOAT}% +\d+:\d\d"
        rows = re.findall(rf"(?m)^ +(\d+)/20 +{columns}$", out)
        self.assertEqual([int(row) for row in rows], list(range(1, 21)))
        self.assertRegex(out, r"(?m)^ +epoch +train loss +mean loss +replicas % +mean % +consensus +images/s")
        steps = re.findall(r"(?m)^  epoch \d+/20 step (\d+)/23 loss \S+, \d+ images/s, \d+:\d\d left$", out)
        self.assertEqual(steps, ["10", "20"] * 20)
        end = out[out.index("Done"):]
        for line in (r"epochs +20 \(460 steps\)", r"mean model +9[7-9]\.\d\d % of the test set", r"replicas +",
                     r"consensus distance +", r"time +", r"waiting for others +", r"sent +307 kB",
                     r"checkpoint +runs/digits/checkpoint\.h5", r"metrics +runs/digits/metrics\.h5",
                     r"resolved run file +runs/digits/config\.toml"):
            self.assertRegex(end, r"(?m)^  " + line)

    def check_metrics(self, metrics):
        expected = {f"step/{name}": (460, 4) for name in STEP_COLUMNS}
        expected.update({f"epoch/{name}": (20, 4) for name in EPOCH_RANK_COLUMNS})
        expected.update({f"epoch/{name}": (20,) for name in EPOCH_COLUMNS})
        self.assertEqual({name: column.shape for name, column in metrics.items()}, expected)
        for name, column in metrics.items():
            self.assertEqual(column.dtype, np.int64 if name in INTEGERS else np.float64, name)
            self.assertTrue(np.isfinite(column).all() and (column >= 0).all(), name)
        # two neighbours, 4 bytes a parameter
        self.assertEqual(set(metrics["step/bytes_sent"].ravel()), {2 * 4 * 38330})
        self.assertEqual(list(metrics["epoch/steps"]), list(range(23, 461, 23)))
        np.testing.assert_array_equal(metrics["step/rank"], np.tile(range(4), (460, 1)))
        samples = [epoch * 1438 + step * 64 for epoch in range(20) for step in range(23)]
        np.testing.assert_array_equal(metrics["step/samples"], np.tile(samples, (4, 1)).T)
        self.assertEqual(set(metrics["epoch/images"].sum(axis=1)), {1438})
        rate = 0.05 * 0.5 * (1 + np.cos(np.pi * np.arange(460) / 460))
        for of_rank in metrics["step/learning_rate"].T:
            np.testing.assert_allclose(of_rank, rate, rtol=1e-9, atol=1e-15)
        self.assertLess(metrics["epoch/train_loss"][-1].max(), 0.1 * metrics["epoch/train_loss"][0].min())
        with h5py.File(self.path("runs/digits/metrics.h5"), "r") as file:
            self.assertEqual((file.attrs["format"], file.attrs["ranks"]), ("halograd metrics", 4))
            self.assertEqual(file["step/wait_seconds"].attrs["unit"], "s")

    def check_checkpoint(self, metrics):
        with h5py.File(self.path("runs/digits/checkpoint.h5"), "r") as file:
            attributes = {name: file.attrs[name] for name in ("format", "step", "epoch", "step_in_epoch", "ranks",
                                                              "network", "averager", "topology")}
            self.assertEqual(attributes, {
                "format": "halograd checkpoint", "step": 460, "epoch": 20, "step_in_epoch": 0, "ranks": 4,
                "network": "digits_net", "averager": "neighbour combine_then_adapt", "topology": "ring"})
            for word in ("halograd", "Kokkos", "HDF5"):
                self.assertIn(word, file.attrs["versions"])
            replicas = file["replica/parameters"][()]
            self.assertEqual((replicas.shape, replicas.dtype), ((4, 38330), np.float32))
            self.assertEqual(file["replica/optimizer"].shape, (4, 1, 38330))
            self.assertEqual(file["replica/statistics"].shape, (4, 96))
            layers = []
            group = file["mean"]
            group.id.links.iterate(lambda name: layers.append(name.decode()), idx_type=h5py.h5.INDEX_CRT_ORDER)
            self.assertEqual(layers, ["conv1", "batch_norm1", "conv2", "batch_norm2", "dense1", "dense2"])
            self.assertEqual(file["mean/conv2/weight"].shape, (3, 3, 16, 32))
            self.assertEqual(file["mean/dense1/weight"].shape, (512, 64))
            mean = (replicas.astype(np.float64).sum(axis=0) / 4).astype(np.float32)
            for layer in file["mean"].values():
                for tensor in layer.values():
                    if tensor.attrs["kind"] != "parameter":
                        continue
                    begin = int(tensor.attrs["offset"])
                    self.assert_same_bits(tensor[()].ravel(), mean[begin:begin + tensor.size], tensor.name)
            distance = np.sqrt(((replicas - replicas.astype(np.float64).mean(axis=0)) ** 2).sum(axis=1).mean())
            np.testing.assert_allclose(metrics["epoch/consensus_distance"][-1], distance, rtol=0.2, atol=1e-6)
            with open(self.path("runs/digits/config.toml"), encoding="utf-8") as resolved:
                self.assertEqual(file.attrs["config"], resolved.read())

    def check_resolved_file(self):
        """The resolved file is a run file, and resolving it again changes nothing."""
        resolved = self.path("runs/digits/config.toml")
        before = contents(self.folder)
        out = self.succeed("train", "--check", resolved, ranks=4)
        self.assertIn("Checked: ", out)
        self.assertEqual(contents(self.folder), before)
        self.succeed("train", resolved, *sets(output__folder=self.path("again"), training__epochs=1), ranks=1)
        lines = []
        for path in (resolved, self.path("again/digits/config.toml")):
            with open(path, encoding="utf-8") as file:
                lines.append(file.read().split("\n"))
        differing = [first.split(" = ")[0] for first, last in zip(*lines) if first != last]
        self.assertEqual((differing, len(lines[0])), (["epochs", "folder"], len(lines[1])))


class Stale(ProgramTest):
    def test_learns_from_halos_of_earlier_steps(self):
        for name, staleness in (("bounded", 4), ("unbounded", -1)):
            words = sets(name=name, averager__staleness=staleness, averager__age_factor=0.9, comm__slots=3)
            self.succeed("train", DIGITS, *words, ranks=4)
            metrics = read_metrics(self.path("runs", name, "metrics.h5"))
            self.assertGreater(metrics["epoch/mean_model_accuracy"][-1], 0.97, name)


class Switches(ProgramTest):
    def test_json_is_one_object(self):
        values = self.succeed_json("train", *QUICK, ranks=2)
        self.assertEqual((values["epochs"], values["steps"]), (1, 16))
        metrics = read_metrics(self.path("runs/synthetic/metrics.h5"))
        for name in ("mean_model_accuracy", "mean_model_loss", "consensus_distance"):
            self.assertEqual(values[name], metrics[f"epoch/{name}"][-1], name)
        accuracy = metrics["epoch/test_accuracy"][-1]
        self.assertEqual(values["test_accuracy"], [accuracy.min(), accuracy.max()])
        self.assertEqual(values["bytes_sent"], metrics["step/bytes_sent"].mean())
        self.assertAlmostEqual(values["train_loss"], metrics["epoch/train_loss"][-1].mean(), 12)
        self.assertGreater(values["images_per_second"], 0)
        self.assertTrue(0 <= values["wait_share"] <= 1)
        for name in ("checkpoint", "metrics", "config"):
            self.assertTrue(os.path.exists(self.path(values[name])), values[name])

    def test_check_trains_and_writes_nothing(self):
        for ranks in (0, 3):
            out = self.succeed("train", SYNTHETIC, "--check", ranks=ranks)
            self.assertRegex(out, rf"ranks +{max(1, ranks)} on")
            self.assertNotIn("train loss", out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_set_overrides_and_is_kept(self):
        words = sets(name="other", optimizer__name="adam", optimizer__learning_rate=0.01, output__checkpoint_epochs=0,
                     output__folder="kept/here", schedule__name="cosine")
        out = self.succeed("train", *QUICK, *words)
        self.assertRegex(out, r"checkpoint +none \(output\.checkpoint_epochs = 0\)")
        self.assertEqual(sorted(os.listdir(self.path("kept/here/other"))), ["checkpoints", "config.toml", "lock", "metrics.h5"])
        with open(self.path("kept/here/other/config.toml"), encoding="utf-8") as file:
            text = file.read()
        for line in (r'name = "other"', r"epochs = 1", r'name = "adam"', r"learning_rate = 0.01", r'name = "cosine"'):
            self.assertRegex(text, rf"(?m)^{line}( |$)")

    def test_a_seed_repeats_a_run_bit_for_bit(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.succeed("train", *QUICK, *sets(name=name, training__seed=seed), ranks=3)
        replicas = []
        for name in "abc":
            with h5py.File(self.path("runs", name, "checkpoint.h5"), "r") as file:
                replicas.append(file["replica/parameters"][()])
        self.assert_same_bits(replicas[0], replicas[1], "the same seed")
        self.assertFalse(np.array_equal(replicas[0], replicas[2]))

    def test_overwrite_replaces_a_run(self):
        self.succeed("train", SYNTHETIC, ranks=2)
        self.succeed("train", *QUICK, "--overwrite", ranks=3)
        with h5py.File(self.path("runs/synthetic/checkpoint.h5"), "r") as file:
            self.assertEqual((file.attrs["epoch"], file.attrs["ranks"]), (1, 3))
        self.assertEqual(read_metrics(self.path("runs/synthetic/metrics.h5"))["step/loss"].shape, (16, 3))


class Terminal(ProgramTest):
    def shown_on_terminal(self, ranks):
        leader, follower = pty.openpty()
        command = launched(["train", SYNTHETIC, *sets(data__synthetic_train=4096), "--overwrite"], ranks)
        with subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=follower,
                              stderr=subprocess.PIPE) as process:
            os.close(follower)
            shown = b""
            end = time.monotonic() + TIMEOUT
            while time.monotonic() < end:
                if not select.select([leader], [], [], 1)[0]:
                    continue
                try:
                    part = os.read(leader, 65536)
                except OSError:  # how Linux says that the other side is closed
                    break
                if not part:
                    break
                shown += part
            else:
                process.kill()
                self.fail(f"still running after {TIMEOUT} s: {shown}")
            self.assertEqual((process.wait(TIMEOUT), process.stderr.read()), (0, b""))
        os.close(leader)
        return shown.decode()

    def test_a_bar_with_rate_and_time_left(self):
        for ranks in (0, 3):  # the launcher stands between rank 0 and the terminal
            self.check(self.shown_on_terminal(ranks))

    def check(self, text):
        figures = r"loss [\d.]+  \d+ images/s  \d+:\d\d left"
        bars = re.findall(rf"\r\x1b\[Kepoch (\d)/2 \[(#*)(\.*)\] +(\d+) %  {figures}", text)
        self.assertGreaterEqual(len(bars), 2)  # each epoch ends with a full one
        for epoch, done, left, percent in bars:
            self.assertEqual(len(done + left), 30)
            self.assertLessEqual(abs(len(done) / 30 - int(percent) / 100), 1 / 30 + 0.01)
        self.assertEqual([epoch for epoch, _, left, _ in bars if left == ""], ["1", "2"])
        # a bar is wiped away before the epoch's row
        self.assertRegex(text, r"left\r\x1b\[K +1/2 ")
        self.assertNotIn(" step ", text)


class Averagers(ProgramTest):
    """Every way to keep replicas together; that each follows its rule exactly is tested in tests/averagers."""

    def check(self, ranks, name, order="combine_then_adapt", kind="ring", epochs=1, **others):
        words = sets(training__epochs=epochs, averager__name=name, averager__order=order, topology__kind=kind, **others)
        values = self.succeed_json("train", *QUICK, *words, "--overwrite", ranks=ranks)
        label = f"{name} {order} {kind} on {ranks} ranks"
        self.assertEqual(values["steps"], 16 * epochs, label)
        # four classes: chance is 0.25; the mean of replicas that nothing held together is worse than each
        self.assertGreater(values["mean_model_accuracy"], 0.5 if name == "none" else 0.8, label)
        with h5py.File(self.path("runs/synthetic/checkpoint.h5"), "r") as file:
            parameters = file["replica/parameters"][()].astype(np.float64)
        distance = np.sqrt(((parameters - parameters.mean(axis=0)) ** 2).sum(axis=1).mean())
        self.assertAlmostEqual(values["consensus_distance"], distance, 5, label)
        if ranks == 1 or name == "allreduce":
            self.assertLess(distance, 1e-5, label)
        if ranks == 1 or name == "none":
            self.assertEqual(values["bytes_sent"], 0, label)
        else:
            self.assertGreater(values["bytes_sent"], 0, label)
        if ranks > 1 and name == "none":
            self.assertGreater(distance, 0.05, label)  # left alone, they part
        return distance

    def test_none_and_allreduce(self):
        for ranks in (1, 3, 8):
            self.check(ranks, "allreduce")
        for ranks in (1, 3):
            self.check(ranks, "none")

    def test_neighbour_on_every_graph(self):
        for ranks, kinds in ((1, ["ring"]), (2, ["ring"]), (3, ["ring", "exponential"]),
                             (4, ["torus2d", "exponential", "complete"]), (8, ["ring", "exponential"])):
            for i, kind in enumerate(kinds):
                self.check(ranks, "neighbour", ["combine_then_adapt", "adapt_then_combine"][i % 2], kind)

    def test_neighbour_on_a_graph_of_a_file(self):
        file = os.path.join(os.path.dirname(DIGITS), "topology_example.toml")
        distances = {}
        for order in ("combine_then_adapt", "adapt_then_combine"):
            distances[order] = self.check(4, "neighbour", order, "file", topology__file=file)
        # what is mixed after the step is nearer together
        self.assertLess(distances["adapt_then_combine"], distances["combine_then_adapt"])

    def test_neighbour_on_graphs_that_change(self):
        for ranks, kind in ((1, "random_matching"), (2, "one_peer_exponential"), (3, "random_matching"),
                            (4, "rotating_exponential"), (8, "one_peer_exponential")):
            self.check(ranks, "neighbour", kind=kind)

    def test_push_sum_and_gossip_grad(self):
        for ranks, kind, overlap in ((1, "star", True), (3, "star", False), (4, "exponential", True),
                                     (4, "one_peer_exponential", True)):
            self.check(ranks, "push_sum", kind=kind, averager__overlap=overlap)
        for ranks in (1, 3, 4):
            self.check(ranks, "gossip_grad", kind="rotating_exponential")

    def test_ad_psgd_ends_where_ranks_have_other_shares_of_a_batch(self):
        """Steps are mostly asleep: a partner answers when it next runs, which on shared cores is else a time slice away."""
        for ranks, put in ((1, False), (3, False), (4, True), (8, False)):
            self.check(ranks, "ad_psgd", kind="complete", epochs=4, comm__force_put=put, comm__inject__compute_us=5000)

    def test_put_path_equals_shared_memory(self):
        replicas = []
        for put, interval in ((False, 200), (True, 0), (True, 200)):
            self.check(4, "neighbour", comm__force_put=put, comm__progress_us=interval)
            with h5py.File(self.path("runs/synthetic/checkpoint.h5"), "r") as file:
                replicas.append(file["replica/parameters"][()])
            with h5py.File(self.path("runs/synthetic/metrics.h5"), "r") as file:
                looked = file["step/progress_seconds"][()].sum()
            if not put or interval == 0:
                self.assertEqual(looked, 0)
        self.assert_same_bits(replicas[0], replicas[1], "force_put")
        self.assert_same_bits(replicas[0], replicas[2], "a thread that keeps puts going")


if __name__ == "__main__":
    main()
