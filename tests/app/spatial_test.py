#!/usr/bin/env python3
"""[parallel]: groups of ranks that share a replica train as single ranks do, and go on from each other's checkpoints."""

import glob
import os
import re
import shutil
import subprocess
import time

import h5py
import numpy as np

from program import PROGRAM, ProgramTest, execute, kill_ranks, launched, main, read_metrics, read_replicas, sets

RUN_FILE = """
[training]
epochs = 2
batch = 4
threads = 1

[data]
format = "hdf5"
path = "volumes.h5"

[network]
name = "edges"
{layers}
[loss]
name = "binary_cross_entropy"

[optimizer]
name = "sgd"
learning_rate = 0.02
momentum = 0.9
"""

LAYER = """
[[network.layer]]
{}
"""

# An encoder and a decoder with a shortcut, normalised over what several ranks have.
PER_PIXEL = [
    'type = "conv"\nname = "first"\nchannels = 4\nkernel = 3\npadding = 1',
    'type = "batch_norm"',
    'type = "relu"\nname = "fine"',
    'type = "max_pool"\nkernel = 2\nstride = 2',
    'type = "conv"\nchannels = 6\nkernel = 3\npadding = 1',
    'type = "group_norm"\ngroups = 2',
    'type = "dropout"\nprobability = 0.2',
    'type = "conv_transpose"\nname = "coarse"\nchannels = 4\nkernel = 2\nstride = 2',
    'type = "concat"\ninputs = ["coarse", "fine"]',
    'type = "conv"\nchannels = 1\nkernel = 1',
]

SAME_TO_ROUNDING = ["step/loss", "epoch/train_loss", "epoch/test_loss", "epoch/mean_model_loss"]
NEIGHBOURS = sets(averager__name="neighbour", averager__momentum="averaged")

# How each averager in lockstep is run; ranks of a node: of a run whose replicas are single ranks.
AVERAGERS = {
    "none": [{}],
    "allreduce": [{}],
    "neighbour": [{"averager__global_every": 3}, {"averager__consensus_target": 2, "averager__every": 4}],
    "push_sum": [{"topology__kind": "exponential"}, {"topology__kind": "exponential", "averager__overlap": True}],
    "gossip_grad": [{"topology__kind": "one_peer_exponential"}],
    "easgd": [{}],
    "fast": [{"averager__sync_epochs": 1}],
    "hierarchical": [{"comm__ranks_per_node": 2}],
}
FREE = ["ad_psgd"]  # always: no two runs are the same (free_pace_test.py)


class Spatial(ProgramTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        with h5py.File(self.path("volumes.h5"), "w") as file:
            for split, count in (("train", 16), ("test", 5)):
                volumes = random.normal(size=(count, 6, 8, 10, 1)).astype(np.float32)
                file[f"{split}/images"] = volumes
                file[f"{split}/labels"] = (volumes[..., 0] > 0.5).astype(np.uint8)
                file[f"{split}/labels"].attrs["classes"] = 2
        self.run_file = self.write("run.toml", RUN_FILE.format(layers="".join(map(LAYER.format, PER_PIXEL))))

    def train(self, ranks, *words, spatial=None, name="run"):
        blocks = sets(parallel__spatial=spatial) if spatial else []
        out = self.succeed("train", self.run_file, *words, *blocks, *sets(name=name), ranks=ranks)
        self.assertEqual("Resumed from" in out, "--resume" in words)
        return read_metrics(self.path(f"runs/{name}/metrics.h5"))

    def assert_same_to_rounding(self, found, expected, rows=SAME_TO_ROUNDING):
        for name in rows:
            np.testing.assert_allclose(found[name], expected[name], rtol=2e-4, err_msg=name)

    def test_trains_as_one_rank(self):
        one = self.train(1, name="one")
        for ranks, blocks in ((4, [2, 1, 2]), (3, [1, 3, 1])):
            name = f"on_{ranks}"
            self.assert_same_to_rounding(self.train(ranks, spatial=blocks, name=name), one)
            with h5py.File(self.path(f"runs/{name}/checkpoint.h5"), "r") as file:
                self.assertEqual(file.attrs["ranks"], 1)
            self.succeed("evaluate", self.path(f"runs/{name}/checkpoint.h5"))
        # one folder for the blocks of all parts: also of those that begin in the same place
        os.mkdir(self.path("cache"))
        cache = sets(data__cache_folder=self.path("cache"))
        for blocks in ([1, 1, 2], [1, 2, 1]):
            self.assert_same_to_rounding(self.train(2, *cache, spatial=blocks, name="cached"), one)
            shutil.rmtree(self.path("runs/cached"))

    def test_evaluates_as_one_rank(self):
        self.train(1)
        evaluate = ["evaluate", self.path("runs/run/checkpoint.h5"), "--report"]
        one = self.succeed_json(*evaluate)
        for ranks, blocks in ((4, [2, 1, 1]), (3, [1, 3, 1])):
            group = self.succeed_json(*evaluate, *sets(parallel__spatial=blocks), ranks=ranks)
            self.assertEqual((group["images"], group["confusion"]), (one["images"], one["confusion"]))
            self.assertAlmostEqual(group["mean_model_loss"], one["mean_model_loss"], 5)
        self.refuse(*evaluate, *sets(parallel__spatial=[1, 1, 2]), words=["3", "multiple of 2"], ranks=3)

    def test_averages_between_groups(self):
        two = self.train(2, *NEIGHBOURS, name="two")
        groups = self.train(4, *NEIGHBOURS, spatial=[1, 2, 1], name="groups")
        self.assert_same_to_rounding(groups, two, [*SAME_TO_ROUNDING, "epoch/consensus_distance"])
        self.assertEqual(groups["step/loss"].shape, two["step/loss"].shape)

    def check_between_groups(self, replicas, spatial, name, settings):
        """A run of groups ends as one whose replicas are single ranks."""
        ranks = replicas * int(np.prod(spatial))
        runs = {}
        for run, count, more in (("single", replicas, {}), ("groups", ranks, {"parallel__spatial": spatial})):
            values = {"averager__name": name, **settings, **more}
            if "comm__ranks_per_node" in values:
                values["comm__ranks_per_node"] *= count // replicas
            self.succeed("train", self.run_file, "--overwrite", *sets(name=run, **values), ranks=count)
            runs[run] = (read_metrics(self.path(f"runs/{run}/metrics.h5")),
                         read_replicas(self.path(f"runs/{run}/checkpoint.h5")))
        (single, expected), (groups, found) = runs["single"], runs["groups"]
        self.assert_same_to_rounding(groups, single)
        np.testing.assert_allclose(groups["epoch/consensus_distance"], single["epoch/consensus_distance"], rtol=2e-3, atol=1e-6)
        np.testing.assert_array_equal(groups["step/bytes_sent"].shape, single["step/bytes_sent"].shape)
        for each in ("parameters", "statistics"):
            np.testing.assert_allclose(found[each][0], expected[each][0], rtol=1e-3, atol=2e-5, err_msg=each)

    def test_every_averager_averages_between_groups(self):
        out = self.run_program("train", self.run_file, *sets(averager__name="nobody")).err
        names = re.findall(r'"(\w+)"', out.split("must be one of")[1].split("\n")[0])
        self.assertEqual(sorted(names), sorted([*AVERAGERS, *FREE]))
        for name, choices in AVERAGERS.items():
            for choice in choices:
                with self.subTest(averager=name, **choice):
                    self.check_between_groups(4 if name == "hierarchical" else 2, [1, 2, 1], name, choice)

    def test_averages_between_groups_of_four(self):
        self.check_between_groups(2, [1, 2, 2], "push_sum", AVERAGERS["push_sum"][1])

    def test_ranks_of_a_group_exchange_in_the_same_steps(self):
        """How far replicas are apart is looked at for all of them, not shard by shard."""
        self.train(4, *sets(training__epochs=6, averager__name="neighbour", averager__consensus_target=0.3, averager__every=6),
                   spatial=[1, 2, 1])
        kept = read_replicas(self.path("runs/run/checkpoint.h5"))
        first, second = (kept[f"averager/period{shard}"][0] for shard in ("", "_of_shard_1"))
        np.testing.assert_array_equal(first, second)
        self.assertGreater(first[0, 2], 1)

    def check_resuming(self, *words, spatial):
        """A run that goes on from its first epoch ends with the same replicas, to the bit; these."""
        words = [*NEIGHBOURS, *words, *sets(output__keep=2)]
        self.train(4, *words, spatial=spatial)
        straight = read_replicas(self.path("runs/run/checkpoint.h5"))
        checkpoints = self.path("runs/run/checkpoints")
        os.remove(os.path.join(checkpoints, max(os.listdir(checkpoints))))
        self.train(4, *words, "--resume", spatial=spatial)
        resumed = read_replicas(self.path("runs/run/checkpoint.h5"))
        self.assertEqual(straight.keys(), resumed.keys())
        for name, (values, _) in straight.items():
            np.testing.assert_array_equal(values, resumed[name][0], err_msg=name)
        return straight

    def test_resumes_bitwise(self):
        self.check_resuming(*sets(averager__every=3), spatial=[2, 1, 1])

    def test_keeps_what_averagers_keep_of_each_shard(self):
        """What codecs have sent so far."""
        kept = self.check_resuming(*sets(averager__codec="int8"), spatial=[1, 1, 2])
        self.assertTrue(any("_of_shard_1" in name for name in kept))

    def test_goes_on_from_copies_of_shards(self):
        """A run that was killed before its first checkpoint ends with the bits of one that was not; each rank's copy is of its
        shard."""
        words = [*NEIGHBOURS, *sets(output__local_steps=1, output__local_folder=self.path("disk"))]
        straight = self.train(4, *words, spatial=[2, 1, 1], name="straight")
        slow = sets(parallel__spatial=[2, 1, 1], name="killed", output__checkpoint_epochs=0, comm__inject__compute_us=500000)
        with subprocess.Popen(launched(["train", self.run_file, *words, *slow], 4), cwd=self.folder, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + 60
            while len(glob.glob(self.path("disk/*/step_3_rank_*_of_4_in_groups_of_2.h5"))) < 4:
                self.assertLess(time.monotonic(), end, "no copies")
                time.sleep(0.01)
            kill_ranks(process.pid)
            process.wait(60)
        self.assertFalse(os.path.exists(self.path("runs/killed/checkpoint.h5")))
        resumed = self.train(4, *words, "--resume", spatial=[2, 1, 1], name="killed")
        for name in SAME_TO_ROUNDING:
            np.testing.assert_array_equal(resumed[name], straight[name], err_msg=name)
        replicas = [read_replicas(self.path(f"runs/{name}/checkpoint.h5")) for name in ("straight", "killed")]
        for name, (values, _) in replicas[0].items():
            np.testing.assert_array_equal(values, replicas[1][name][0], err_msg=name)

    def test_divides_channels(self):
        """Of the last convolution of undivided volumes, which may be shifted; and beside blocks, of what these leave whole."""
        one = self.train(1, name="one")
        self.assert_same_to_rounding(self.train(2, *sets(parallel__channels=2), name="channels"), one)
        pooled = sets(data__flip=True, averager__name="neighbour")
        two = self.train(2, *pooled, name="two")
        self.assert_same_to_rounding(self.train(4, *pooled, *sets(parallel__channels=2), name="pairs"), two)
        both = self.train(4, *sets(parallel__channels=4), spatial=[1, 2, 2], name="both")
        self.assert_same_to_rounding(both, one)
        self.assert_same_to_rounding(self.train(2, "--stop-after", "1", *sets(parallel__channels=2), name="resumed"),
                                     {name: values[:len(values) // 2] for name, values in one.items()})
        self.assert_same_to_rounding(self.train(1, "--resume", name="resumed"), one)

    def test_goes_on_with_other_blocks(self):
        one = self.train(1, name="one")
        self.train(4, "--stop-after", "1", spatial=[2, 2, 1], name="several")
        self.assert_same_to_rounding(self.train(2, "--resume", spatial=[1, 1, 2], name="several"), one)

    def test_refuses_what_does_not_fit(self):
        def refuse(ranks, words, spatial, **settings):
            self.refuse("train", self.run_file, *sets(parallel__spatial=spatial, **settings), words=words, ranks=ranks)

        refuse(3, ["parallel.spatial = [1, 1, 2]", "3", "multiple of 2"], [1, 1, 2])
        refuse(2, ["parallel.spatial", "2 numbers", "3 spatial axes"], [1, 2])
        refuse(2, ["parallel.spatial", "data.flip"], [1, 1, 2], data__flip=True)
        refuse(2, ["parallel.channels = 4", "[1, 1, 2]", "groups of 2"], [1, 1, 2], parallel__channels=4)
        refuse(2, ["parallel.channels = 3", "2", "multiple of 3"], [1, 1, 1], parallel__channels=3)
        refuse(2, ["[parallel]", "training.shares"], [1, 1, 2], training__shares="measured")

    def test_a_volume_too_large_for_one_rank(self):
        """Each process may have 260 MB beside what its libraries take: a rank with the whole volume is told that they are too
        few, four share it."""
        shape = (1, 64, 160, 160)
        volumes = np.random.default_rng(4).normal(size=(*shape, 1)).astype(np.float32)
        with h5py.File(self.path("volumes.h5"), "w") as file:
            for split in ("train", "test"):
                file[f"{split}/images"] = volumes
                file[f"{split}/labels"] = (volumes[..., 0] > 0.5).astype(np.uint8)
                file[f"{split}/labels"].attrs["classes"] = 2
        layers = [f'type = "conv"\nchannels = {channels}\nkernel = {size}\npadding = {size // 2}'
                  for channels, size in ((16, 1), (16, 1), (1, 3))]
        self.write("run.toml", RUN_FILE.format(layers="".join(map(LAYER.format, layers))))
        limited = self.write("limited.sh", 'ulimit -d $1 && exec "${@:2}"\n')

        def train(limit, ranks, *words):
            words = launched(["train", self.run_file, *sets(training__batch=1, training__epochs=1), *words], ranks)
            at = words.index(PROGRAM)
            return execute([*words[:at], "bash", limited, str(limit), *words[at:]], self.folder)

        limit = 320000  # KiB
        free = float(re.search(r"but only ([0-9.]+) GB of memory are free", train(limit, 0).err).group(1))
        limit += int((0.26 - free) * 1e9 / 1024)
        self.check_refused(train(limit, 0), "activations and gradients of 1 images take", "of memory are free")
        shared = train(limit, 4, *sets(parallel__spatial=[1, 2, 2]))
        self.assertEqual((shared.status, shared.err), (0, ""), shared.out)

    def test_stops_together(self):
        """A number that is not finite lies with one rank of a group: all name the image, and none waits for another."""
        with h5py.File(self.path("volumes.h5"), "r+") as file:
            file["train/images"][3, 0, 0, 0, 0] = np.nan
        result = self.run_program("train", self.run_file, *sets(parallel__spatial=[1, 1, 2]), ranks=2)
        self.check_refused(result, "image 3 of the training set", "not finite")


if __name__ == "__main__":
    main()
