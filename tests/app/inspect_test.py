#!/usr/bin/env python3
"""halograd evaluate, inspect, topology and --version, held against h5py and numpy."""

import os
import re
import shutil

import h5py
import numpy as np

from program import DIGITS, INPUTS, SYNTHETIC, PreparedTest, ProgramTest, contents, main, read_metrics, sets


class OfARun(PreparedTest):
    """A run of the digits on three ranks, whose replicas differ."""

    def prepare(self):
        self.succeed("train", DIGITS, *sets(training__epochs=2, schedule__name="constant"), ranks=3)

    def setUp(self):
        super().setUp()
        self.checkpoint = self.path("runs/digits/checkpoint.h5")
        self.metrics = self.path("runs/digits/metrics.h5")
        self.columns = read_metrics(self.metrics)

    def test_evaluate_repeats_the_last_row(self):
        before = contents(self.folder)
        for ranks in (0, 1, 3):
            values = self.succeed_json("evaluate", self.checkpoint, ranks=ranks)
            self.assertEqual(values["mean_model_accuracy"], self.columns["epoch/mean_model_accuracy"][-1], ranks)
            self.assertAlmostEqual(values["mean_model_loss"], self.columns["epoch/mean_model_loss"][-1], 6)
            self.assertEqual((values["images"], values["step"], values["epoch"]), (359, 46, 2))
        accuracy = 100 * self.columns["epoch/mean_model_accuracy"][-1]
        out = self.succeed("evaluate", "runs/digits/checkpoint.h5")
        self.assertIn("digits_net after 2 epochs (46 steps) on 3 ranks", out)
        self.assertIn(f"mean model: {accuracy:.2f} % of 359 test images", out)
        self.assertEqual(contents(self.folder), before)

    def test_evaluate_on_other_data(self):
        """The checkpoint's own settings hold unless --set says otherwise."""
        moved = self.path("moved.h5")
        with open(os.path.join(INPUTS, "digits.h5"), "rb") as source, open(moved, "wb") as target:
            target.write(source.read())
        with h5py.File(moved, "r+") as file:
            labels = file["test/labels"]
            labels[...] = (labels[()] + 1) % 10
        values = self.succeed_json("evaluate", self.checkpoint, "--set", f"data.path={moved}", ranks=2)
        self.assertLess(values["mean_model_accuracy"], 0.1)

    def test_inspect_a_checkpoint(self):
        values = self.succeed_json("inspect", self.checkpoint)
        out = self.succeed("inspect", self.checkpoint)
        with h5py.File(self.checkpoint, "r") as file:
            for name in ("format", "step", "epoch", "step_in_epoch", "ranks", "network", "averager", "topology",
                         "config", "versions"):
                self.assertEqual(values[name], file.attrs[name], name)
            replicas = file["replica/parameters"][()].astype(np.float64)
            self.assertEqual((values["ranks"], values["parameters"]), replicas.shape)
            self.assertEqual(values["optimizer_buffers"], file["replica/optimizer"].shape[1])
            self.assertEqual(values["statistics"], file["replica/statistics"].shape[1])
            tensors = {f"{entry['layer']}/{entry['tensor']}": entry for entry in values["mean"]}
            names = [f"{layer}/{tensor}" for layer in file["mean"] for tensor in file["mean"][layer]]
            self.assertEqual(sorted(tensors), sorted(names))
            for name, entry in tensors.items():
                tensor = file["mean"][name]
                self.assertEqual((tuple(entry["extents"]), entry["kind"]), (tensor.shape, tensor.attrs["kind"]))
                np.testing.assert_allclose(entry["norm"], np.linalg.norm(tensor[()].astype(np.float64)), rtol=1e-6)
                layer, short = name.split("/")
                self.assertRegex(out, rf"(?m)^ +{layer} +{short} +{' x '.join(map(str, tensor.shape))} +\S+$")
        apart = replicas - replicas.mean(axis=0)
        np.testing.assert_allclose(values["norm"], np.linalg.norm(replicas, axis=1), rtol=1e-6)
        np.testing.assert_allclose(values["distance"], np.linalg.norm(apart, axis=1), rtol=1e-4)
        np.testing.assert_allclose(values["consensus_distance"], np.sqrt((apart ** 2).sum(axis=1).mean()), rtol=1e-4)
        self.assertGreater(values["consensus_distance"], 1e-3)
        self.assertEqual(values["damaged"], [])
        self.assertRegex(out, r"checksums +correct")

    def test_inspect_metrics(self):
        values = self.succeed_json("inspect", self.metrics)
        self.assertEqual((values["format"], values["ranks"], values["steps"], values["epochs"]),
                         ("halograd metrics", 3, 46, 2))
        self.assertEqual(sorted(values["last"]), sorted("/" + name for name in self.columns))
        out = self.succeed("inspect", self.metrics)
        self.assertIn("3 ranks, 46 steps, 2 epochs", out)
        for name, column in self.columns.items():
            np.testing.assert_array_equal(values["last"]["/" + name], np.atleast_1d(column[-1]))
            self.assertRegex(out, rf"(?m)^  /{name} ")

    def test_inspect_tells_of_damage(self):
        with h5py.File(self.checkpoint, "r+") as file:
            file["replica/parameters"][2, 100] += 1
        words = [self.checkpoint, "damaged", "/replica/parameters"]
        result = self.refuse("inspect", self.checkpoint, ranks=0, words=words)
        self.assertRegex(result.out, r"checksums +wrong")

    def flip_metadata(self, path, places=32):
        """Flips one bit of an HDF5 file at a time, in `places` bytes that are not of its values."""
        with open(path, "rb") as file:
            sound = bytearray(file.read())
        values = np.zeros(len(sound), dtype=bool)

        def mark(_, item):
            if not isinstance(item, h5py.Dataset):
                return
            stretches = [(item.id.get_offset() or 0, item.id.get_storage_size())]
            if item.chunks:
                chunks = map(item.id.get_chunk_info, range(item.id.get_num_chunks()))
                stretches = [(chunk.byte_offset, chunk.size) for chunk in chunks]
            for start, size in stretches:
                values[start:start + size] = True

        with h5py.File(path, "r") as file:
            file.visititems(mark)
        metadata = np.flatnonzero(~values & (np.frombuffer(sound, dtype=np.uint8) != 0))
        for number, at in enumerate(metadata[:: len(metadata) // places]):
            damaged = sound.copy()
            damaged[at] ^= 1 << number % 8
            with open(path, "wb") as file:
                file.write(damaged)
            yield number

    def ending(self, *words, name):
        """0, or 1 where the program refused the file of this name."""
        result = self.run_program(*words)
        if result.status != 0:
            self.check_refused(result, name)
        return result.status

    def test_damaged_metrics_are_read_to_an_end(self):
        """HDF5 reads what has a wrong checksum again beside a writer: that has to end, also for watch."""
        endings = []
        for number in self.flip_metadata(self.metrics):
            for words in (["inspect", self.metrics], ["watch", "runs/digits", "--once"])[: 2 if number % 4 == 0 else 1]:
                endings.append(self.ending(*words, name="runs/digits/metrics.h5"))
        self.assertIn(1, endings)

    def test_damaged_checkpoints_and_data_are_read_to_an_end(self):
        data = shutil.copy(os.path.join(INPUTS, "digits.h5"), self.path("damaged.h5"))
        evaluate = ["evaluate", self.checkpoint, "--set", f"data.path={data}"]
        self.assertIn(1, [self.ending(*evaluate, name=data) for _ in self.flip_metadata(data, 8)])
        name = os.path.realpath(self.checkpoint)
        self.assertIn(1, [self.ending("inspect", name, name=name) for _ in self.flip_metadata(name, 16)])

    def test_inspect_refuses_what_is_neither(self):
        missing = self.path("missing.h5")
        self.refuse("inspect", missing, ranks=0, words=[missing])
        text = self.write("text.h5", "words\n")
        self.refuse("inspect", text, ranks=0, words=[text])
        images = os.path.join(INPUTS, "digits.h5")
        self.refuse("inspect", images, ranks=0, words=[images, "format"])
        self.refuse("evaluate", self.metrics, ranks=2, words=[self.metrics, "halograd metrics", "halograd checkpoint"])


class Topology(ProgramTest):
    def matrix(self, values):
        mixing = np.diag(values["self_weight"])
        for source, target, weight in zip(values["edge_from"], values["edge_to"], values["edge_weight"]):
            mixing[target, source] += weight
        return mixing

    def test_figures_against_eigenvalues(self):
        for kind in ("ring", "torus2d", "exponential", "complete"):
            for ranks in (1, 2, 3, 4, 8, 12, 16):
                label = f"{kind} of {ranks}"
                values = self.succeed_json("topology", "--kind", kind, "--ranks", ranks, "--parameters", 1000)
                mixing = self.matrix(values)
                np.testing.assert_allclose(mixing.sum(axis=0), 1, atol=1e-12, err_msg=label)
                np.testing.assert_allclose(mixing.sum(axis=1), 1, atol=1e-12, err_msg=label)
                sizes = np.sort(np.abs(np.linalg.eigvals(mixing)))[::-1]
                gap = 1 - sizes[1] if ranks > 1 else 1
                self.assertAlmostEqual(values["spectral_gap"], gap, 6, label)
                self.assertEqual(values["edges"], len(values["edge_from"]), label)
                self.assertAlmostEqual(values["bytes_sent"], 4000 * values["edges"] / ranks, 6, label)
                self.assertAlmostEqual(values["allreduce_bytes_sent"], 8000 * (ranks - 1) / ranks, 6, label)
        self.assertEqual(os.listdir(self.folder), [])

    def test_text(self):
        out = self.succeed("topology", "--kind", "torus2d", "--ranks", 16)
        values = self.succeed_json("topology", "--kind", "torus2d", "--ranks", 16)
        self.assertRegex(out, rf"spectral gap +{values['spectral_gap']:.4g}\b")
        self.assertRegex(out, r"edges +64, at most 4 from a rank")
        self.assertRegex(out, r"this topology +6,897,280 bytes per rank and step \(4 models\)")
        rows = re.findall(r"(?m)^ +(\d+) +0\.2000  (.*)$", out)
        self.assertEqual([int(rank) for rank, _ in rows], list(range(16)))
        for rank, row in rows:
            taken = {int(number) for number in re.findall(r"(\d+) \(0\.2000\)", row)}
            y, x = divmod(int(rank), 4)
            near = ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1))
            self.assertEqual(taken, {row % 4 * 4 + column % 4 for row, column in near})

    def test_graphs_that_change(self):
        for kind, ranks, edges, period, steps in (
                ("one_peer_exponential", 16, 16, 4, 4), ("rotating_exponential", 8, 8, 0, 3),
                ("one_peer_exponential", 1, 0, 1, 0), ("random_matching", 2, 2, 0, 1)):
            words = ("topology", "--kind", kind, "--ranks", ranks, "--parameters", 1000)
            values = self.succeed_json(*words)
            expected = {"topology": kind, "ranks": ranks, "edges": edges, "period": period, "steps_to_a_tenth": steps,
                        "bytes_sent": 4000 * edges / ranks}
            self.assertEqual({name: values[name] for name in expected}, expected)
        out = self.succeed("topology", "--kind", "random_matching", "--ranks", 5)
        self.assertIn("edges            4 per step", out)
        rows = np.array([row.split() for row in re.findall(r"(?m)^ +\d+  .*$", out)])
        self.assertEqual(rows.shape, (5, 9))
        for column in rows.T[1:]:  # partners of each other, and one rank without
            self.assertEqual(list(column).count("-"), 1)
            for rank, partner in enumerate(column):
                if partner != "-":
                    self.assertEqual(column[int(partner)], str(rank))

    def test_of_a_file(self):
        example = os.path.join(INPUTS, "topology_example.toml")
        values = self.succeed_json("topology", "--file", example, "--ranks", 4)
        ring = np.full((4, 4), 0.25) * [[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]]
        np.testing.assert_allclose(self.matrix(values), ring)
        self.assertAlmostEqual(values["spectral_gap"], 0.5, 9)

    def test_refusals(self):
        for words, expected in (
                (["--kind", "tours", "--ranks", 4], ["tours"]),
                (["--kind", "ring", "--ranks", 0], ["--ranks", "0"]),
                (["--kind", "ring", "--ranks", "many"], ["--ranks", "many"]),
                (["--kind", "ring"], ["--ranks"])):
            result = self.run_program("topology", *words)
            self.assertNotEqual(result.status, 0, words)
            for word in expected:
                self.assertIn(word, result.err)
        example = os.path.join(INPUTS, "topology_example.toml")
        words = ["topology_example.toml", "4 ranks", "5"]
        self.refuse("topology", "--file", example, "--ranks", 5, ranks=0, words=words)


class Usage(ProgramTest):
    def test_version(self):
        for ranks in (0, 1):
            out = self.succeed("--version", ranks=ranks)
            number = r"\d+\.\d+\.\d+"
            kokkos = rf"Kokkos {number} \(\w+\)"
            self.assertRegex(out, rf"^halograd {number} \([0-9a-z.-]+\), {kokkos}, .*MPI.*, HDF5 {number}\n$")

    def test_help(self):
        out = self.succeed("--help")
        for command in ("train", "evaluate", "topology", "inspect"):
            self.assertRegex(out, rf"(?m)^  {command} ")
            self.assertIn(command, self.succeed(command, "--help"))

    def test_words_that_are_not_known(self):
        """Told once, whatever the number of ranks, with the word that is wrong."""
        for ranks in (0, 2):
            for arguments, word in ((["trian", SYNTHETIC], "trian"), (["train", SYNTHETIC, "--chek"], "--chek"),
                                    (["train"], "file"), ([], "subcommand"),
                                    (["train", SYNTHETIC, "--resume", "--overwrite"], "--overwrite"),
                                    (["train", SYNTHETIC, "--check", "--json"], "--check"),
                                    (["train", SYNTHETIC, "--stop-after", "0"], "--stop-after")):
                result = self.run_program(*arguments, ranks=ranks)
                self.assertNotEqual(result.status, 0, arguments)
                self.assertIn(word, result.err, arguments)
                self.assertEqual(result.err.count("--help"), 1, result.err)
        self.assertIn('did you mean "train"?', self.run_program("trian").err)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
