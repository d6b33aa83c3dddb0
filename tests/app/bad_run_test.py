#!/usr/bin/env python3
"""Bad run files, topologies, run folders and launches: refused with a message that helps, on all ranks, in time."""

import os
import shutil
import unittest

from program import (CORES_HAVE_BF16, DIGITS, INPUTS, MPIEXEC, ON_DEVICES, SYNTHETIC, ProgramTest, contents, execute,
                     launched, main, sets)


def edited(path, old, new):
    """A run file's text with one change, and the number of the changed line."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.count(old) == 1, (path, old)
    return text.replace(old, new), text[:text.index(old)].count("\n") + 1


class RunFile(ProgramTest):
    def refuse_edit(self, old, new, words, caret="", source=SYNTHETIC):
        text, line = edited(source, old, new)
        path = self.write("run.toml", text)
        shown = [f"{path}:{line}:", f"{line} | {new}"] if caret else []
        result = self.refuse("train", path, words=[*shown, *words])
        if caret:  # it stands under the word that is wrong
            rows = result.err.split("\n")
            at = next(i for i, row in enumerate(rows) if f"| {new}" in row)
            marked = rows[at][rows[at + 1].index("^"):rows[at + 1].rindex("^") + 1]
            self.assertEqual(marked, caret)
        return result

    def test_unknown_key(self):
        words = ['unknown key "epoch" in [training]', 'did you mean "epochs"?']
        self.refuse_edit("epochs = 2", "epoch = 2", words, "epoch")

    def test_unknown_table(self):
        self.refuse_edit("[averager]", "[averagers]", ['"averagers"', 'did you mean "averager"?'], "averagers")

    def test_mistyped_value(self):
        words = ["training.epochs", 'the string "2"', "expected an integer"]
        self.refuse_edit("epochs = 2", 'epochs = "2"', words, '"2"')

    def test_unknown_choice(self):
        self.refuse_edit('kind = "ring"', 'kind = "rang"', ["topology.kind", '"ring"', '"exponential"'], '"rang"')

    def test_out_of_range(self):
        self.refuse_edit("momentum = 0.9", "momentum = 1.5", ["optimizer.momentum is 1.5", "below 1"], "1.5")

    @unittest.skipIf(ON_DEVICES, "a device may have it")
    def test_what_the_device_lacks(self):
        needs = {"tf32": "an NVIDIA device"}
        if not CORES_HAVE_BF16:
            needs["bf16"] = "an NVIDIA device, an AMD Instinct from MI100 on, Intel cores with AMX or AMD cores with AVX512_BF16"
        for precision, device in needs.items():
            words = [f'training.precision = "{precision}" needs {device}', 'expected "fp32" on OpenMP']
            self.refuse("train", SYNTHETIC, "--set", f"training.precision={precision}", words=words)

    def test_no_toml(self):
        self.refuse_edit('name = "sgd"', 'name = "sgd', ["run.toml:"])
        self.refuse_edit("epochs = 2", "epochs = ", ["run.toml:6:"])

    def test_set_is_checked_likewise(self):
        for setting, words in (("training.epoch=3", ['did you mean "epochs"?']), ("training.epochs", ["key=value"])):
            self.refuse("train", SYNTHETIC, "--set", setting, words=[f"--set {setting}", *words])

    def test_no_such_file(self):
        missing = self.path("missing.toml")
        self.refuse("train", missing, words=[missing, "No such file"])
        self.refuse("train", self.folder, words=[self.folder, "folder"])

    def test_shapes_that_do_not_chain(self):
        self.refuse_edit("kernel = 3\npadding = 1", "kernel = 30\npadding = 1", ["conv1", "30", "8x8x1"])
        self.refuse_edit("channels = 4  # one per class", "channels = 5", ["dense1", "5", "4"])
        add = '[[network.layer]]\ntype = "add"\ninputs = ["relu1", "input"]\n\n[[network.layer]]\ntype = "flatten"'
        self.refuse_edit('[[network.layer]]\ntype = "flatten"', add, ["add1", "8x8x8", "8x8x1"])

    def test_a_reference_network_of_other_images(self):
        words = sets(network__name="lenet5", network__layer="[]")
        self.refuse("train", DIGITS, *words, words=["conv2", "5", "2x2x20"])

    def test_batches(self):
        for batch, limit in ((2, "at least 3"), (513, "at most 512")):
            words = [f"training.batch is {batch}", limit]
            self.refuse("train", SYNTHETIC, *sets(training__batch=batch), ranks=3, words=words)

    def test_more_threads_than_any_node_has(self):
        self.refuse("train", SYNTHETIC, *sets(training__threads=1000000), words=["training.threads", "1000000", "cores"])

    @unittest.skipIf(ON_DEVICES, "there is a device")
    def test_halos_on_devices_that_are_not_there(self):
        words = ['comm.device_windows is "on", but the program of rank 0 was built for cores']
        self.refuse("train", SYNTHETIC, *sets(comm__device_windows="on"), words=words)

    def test_normalisation_of_other_channels(self):
        self.refuse("train", SYNTHETIC, "--set", "data.mean=[0.1, 0.2, 0.3]", words=["data.mean", "3", "1"])

    def checkpoints(self):
        return contents(self.path("runs/synthetic/checkpoints"))

    def test_a_loss_that_is_no_number(self):
        """Training ends there, on every rank, with a checkpoint of its own beside the one before."""
        self.succeed("train", SYNTHETIC, "--stop-after", 1, ranks=1)
        before = self.checkpoints()
        result = self.run_program("train", SYNTHETIC, "--resume", *sets(optimizer__learning_rate=1e30), ranks=1)
        self.check_refused(result, "not finite", "optimizer.learning_rate", "the last state that was finite is in")
        after = self.checkpoints()
        self.assertTrue(before.items() < after.items())
        self.assertEqual(len(after), len(before) + 1)
        result = self.run_program("train", SYNTHETIC, *sets(name="many", optimizer__learning_rate=1e30), ranks=2)
        self.check_refused(result, "not finite", "optimizer.learning_rate", "the last state that was finite is in")


class TopologyFile(ProgramTest):
    def refuse_file(self, text, words, ranks=4):
        path = self.write("graph.toml", text)
        of_file = sets(topology__kind="file", topology__file=path)
        self.refuse("train", SYNTHETIC, *of_file, ranks=ranks, words=[path, *words])
        self.refuse("topology", "--file", path, "--ranks", ranks, ranks=0, words=[path, *words])

    def edges(self, *edges, ranks=4):
        return f"ranks = {ranks}\n" + "".join(f"[[edge]]\nfrom = {a}\nto = {b}\nweight = {w}\n" for a, b, w in edges)

    def test_not_doubly_stochastic(self):
        text = self.edges((0, 1, 0.5), (1, 2, 0.5), (2, 3, 0.5), (3, 0, 0.25))
        self.refuse_file(text, ["not doubly stochastic", "column 0", "1.25", "expected 1"])
        text = self.edges((0, 1, 0.7), (2, 1, 0.7), (1, 0, 0.7), (1, 2, 0.7), ranks=3)
        self.refuse_file(text, ["rank 1", "1.4", "expected at most 1"], ranks=3)

    def test_not_connected(self):
        text = self.edges((0, 1, 0.5), (1, 0, 0.5), (2, 3, 0.5), (3, 2, 0.5))
        self.refuse_file(text, ["not connected", "rank 2 cannot be reached from rank 0"])

    def test_of_another_number_of_ranks(self):
        with open(os.path.join(INPUTS, "topology_example.toml"), encoding="utf-8") as file:
            self.refuse_file(file.read(), ["4 ranks", "3"], ranks=3)

    def test_missing(self):
        missing = self.path("missing.toml")
        self.refuse("train", SYNTHETIC, *sets(topology__kind="file", topology__file=missing), words=[missing])


class RunFolder(ProgramTest):
    def test_holds_a_run(self):
        self.succeed("train", SYNTHETIC, ranks=2)
        # Ranks on two nodes have made windows by then, which UCX wants freed at the end.
        self.refuse("train", SYNTHETIC, words=["already holds a run"], environment={"MPIR_CVAR_NOLOCAL": "1"})
        # What is refused before training leaves the run alone.
        self.refuse("train", SYNTHETIC, "--overwrite", *sets(training__batch=513), words=["training.batch"])
        elsewhere = sets(data__format="idx", data__path="/nowhere")
        self.refuse("train", SYNTHETIC, "--overwrite", *elsewhere, words=["/nowhere"])
        self.refuse("train", SYNTHETIC, words=["runs/synthetic", "already holds a run", "--resume", "--overwrite"])
        shutil.rmtree(self.path("runs/synthetic/checkpoints"))  # metrics alone are worth keeping too
        self.refuse("train", SYNTHETIC, words=["runs/synthetic", "already holds a run"])

    def test_a_file_in_the_way(self):
        self.write("runs", "a file, no folder\n")
        self.refuse("train", SYNTHETIC, words=["runs/synthetic", "directory"])

    def test_a_folder_in_the_way_of_a_file(self):
        os.makedirs(self.path("runs/synthetic/config.toml.partial"))
        self.refuse("train", SYNTHETIC, words=["runs/synthetic/config.toml.partial", "directory"])
        os.rename(self.path("runs/synthetic/config.toml.partial"), self.path("runs/synthetic/metrics.h5"))
        self.refuse("train", SYNTHETIC, words=["runs/synthetic", "already holds a run"])

    def test_a_folder_that_may_not_be_written(self):
        os.makedirs(self.path("runs"), mode=0o555)
        if os.access(self.path("runs"), os.W_OK):
            self.skipTest("this user may write anywhere")
        self.refuse("train", SYNTHETIC, words=["runs/synthetic", "Permission denied"])


class Launch(ProgramTest):
    """Ranks that were not all started with the same words."""

    def check(self, first, second, *words, ranks=(1, 1)):
        command = [*MPIEXEC, "-n", str(ranks[0]), *launched(first, 0), ":", "-n", str(ranks[1]), *launched(second, 0)]
        before = contents(self.folder)
        result = execute(command, self.folder)
        self.check_refused(result, *words)
        self.assertTrue(contents(self.folder) == before)

    def test_other_settings(self):
        train = ["train", SYNTHETIC]
        self.check([*train, *sets(optimizer__momentum=0.8)], train, "rank 1", "a different run file", "momentum = 0.9",
                   "momentum = 0.8")
        self.check(train, [*train, *sets(training__epochs=9)], "rank 2", "epochs = 9", "epochs = 2", ranks=(2, 1))

    def test_other_files(self):
        self.check(["train", SYNTHETIC], ["train", DIGITS], "rank 1", "a different run file", '"digits"', '"synthetic"')

    def test_a_file_that_one_rank_lacks(self):
        missing = self.path("missing.toml")
        self.check(["train", SYNTHETIC], ["train", missing], missing)
        self.check(["train", missing], ["train", SYNTHETIC], missing)

    def test_other_switches(self):
        train = ["train", SYNTHETIC]
        for switch in ("--check", "--resume", "--overwrite"):
            self.check(train, [*train, switch], "rank 1", "command line", switch)
        self.check([*train, "--stop-after", "1"], train, "rank 1", "command line", "--stop-after 1")

    def test_other_checkpoints(self):
        self.succeed("train", SYNTHETIC, *sets(name="a"), "--stop-after", 1)
        self.succeed("train", SYNTHETIC, *sets(name="b", training__seed=2), "--stop-after", 1)
        a, b = (["evaluate", f"runs/{name}/checkpoint.h5"] for name in "ab")
        self.check(a, b, "rank 1", "checkpoint", "runs/a/checkpoint.h5", "runs/b/checkpoint.h5")
        self.check(a, ["evaluate", "runs/c/checkpoint.h5"], "runs/c/checkpoint.h5")


if __name__ == "__main__":
    main()
