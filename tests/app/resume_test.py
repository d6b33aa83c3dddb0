#!/usr/bin/env python3
"""A run that was stopped and resumed equals one that went straight through, to the bit."""

import os
import shutil
import signal
import subprocess
import time

import h5py

from program import (SYNTHETIC, TIMEOUT, PreparedTest, ProgramTest, contents, kill_ranks, launched, main, read_metrics,
                     read_replicas, sets)

# All that a step draws at random or keeps: batch-norm's statistics, dropout, both augmentations.
NETWORK = """
[[network.layer]]
type = "conv"
channels = 6
kernel = 3
padding = 1

[[network.layer]]
type = "batch_norm"

[[network.layer]]
type = "relu"

[[network.layer]]
type = "max_pool"
kernel = 2
stride = 2

[[network.layer]]
type = "flatten"

[[network.layer]]
type = "dropout"
probability = 0.3

[[network.layer]]
type = "dense"
channels = 4
"""

RUN_FILE = """
[training]
epochs = 4
batch = 30

[data]
format = "synthetic"
synthetic_train = 250
synthetic_test = 50
synthetic_shape = [8, 8, 1]
synthetic_classes = 4
pad_crop = 1
flip = true

[network]
name = "restarted"
""" + NETWORK + """
[schedule]
name = "cosine"
warmup_epochs = 1.5

[optimizer]
"""

SGD = 'name = "sgd"\nlearning_rate = 0.05\nmomentum = 0.9\nnesterov = true\n'
ADAM = 'name = "adam"\nlearning_rate = 0.003\n'


# Starting ranks costs more than training here: runs are short, and a copy of the straight run's folder stands for a killed run.
SHORT = sets(training__epochs=3)
STEPS = 9  # per epoch


class GoldSilver(ProgramTest):
    """A run goes on in copies of its own folder, as a kill after an epoch would have left it; or, with `stops`, in a run that
    stopped by itself after so many epochs each time."""

    def check(self, ranks, optimizer, after=2, stops=(), kept=(), **settings):
        label = f"{settings} on {ranks} ranks"
        words = ["train", self.write("run.toml", RUN_FILE + optimizer), *SHORT, *sets(**settings)]
        self.succeed(*words, *sets(name="gold", output__keep=4), "--overwrite", ranks=ranks)
        silver = [*words, *sets(name="silver")]
        for stop, epochs in enumerate(stops):
            self.succeed(*silver, "--resume" if stop else "--overwrite", "--stop-after", epochs, ranks=ranks)
        done = sum(stops) or after
        checkpoint = f"checkpoints/step_{STEPS * done:08d}.h5"
        if not stops:
            shutil.rmtree(self.path("runs/silver"), ignore_errors=True)
            shutil.copytree(self.path("runs/gold"), self.path("runs/silver"), symlinks=True)
            for later in range(done + 1, 4):
                os.remove(self.path(f"runs/silver/checkpoints/step_{STEPS * later:08d}.h5"))
            with h5py.File(self.path("runs/silver/metrics.h5"), "r+") as file:  # rows that the checkpoint does not know
                for group, rows in (("step", STEPS * done), ("epoch", done)):
                    for column in file[group].values():
                        column[rows:] = -1
        with h5py.File(self.path("runs/silver", checkpoint), "r") as file:
            self.assertEqual(file.attrs["epoch"], done, label)
        out = self.succeed(*silver, "--resume", ranks=ranks)
        self.assertIn(f"Resumed from runs/silver/{checkpoint}: {done} epochs, {STEPS * done} steps in total", out)
        self.assert_same_runs(label)
        gold = read_replicas(self.path("runs/gold/checkpoint.h5"))
        self.assertEqual(sorted(gold), sorted(["optimizer", "parameters", "statistics", *kept]), label)
        self.assertEqual(gold["optimizer"][0].shape[1], 1 if optimizer is SGD else 2, label)
        self.assertEqual(read_metrics(self.path("runs/gold/metrics.h5"))["epoch/steps"].tolist(), [9, 18, 27], label)

    def check_by_the_clock(self, ranks, optimizer, **settings):
        """With more checkpoints, the first after step 5 of each run: when one resumes, at other steps than the straight one."""
        self.check(ranks, optimizer, output__checkpoint_minutes=1e-6, **settings)
        self.assertIn("step_00000005.h5", os.listdir(self.path("runs/gold/checkpoints")))

    def test_one_rank(self):
        self.check(1, SGD, stops=(1, 1), averager__name="none")

    def test_none(self):
        self.check(2, ADAM, averager__name="none")

    def test_allreduce(self):
        self.check(2, ADAM, averager__name="allreduce")
        self.check_by_the_clock(3, SGD, stops=(2,), averager__name="allreduce")

    def test_neighbour_combine_then_adapt(self):
        self.check(2, SGD, stops=(2,), averager__name="neighbour")
        self.check(4, ADAM, averager__name="neighbour", topology__kind="exponential")
        self.check(8, SGD, averager__name="neighbour")

    def test_neighbour_adapt_then_combine(self):
        self.check(3, ADAM, averager__name="neighbour", averager__order="adapt_then_combine")
        self.check(4, SGD, averager__name="neighbour", averager__order="adapt_then_combine", comm__force_put=True,
                   topology__kind="torus2d")

    def test_checkpoints_that_no_epoch_asks_for(self):
        words = ["train", self.write("run.toml", RUN_FILE + SGD), *sets(output__checkpoint_epochs=0)]
        self.succeed(*words, "--stop-after", 2)
        self.assertIn("Resumed from runs/run/checkpoints/step_00000018.h5: 2 epochs", self.succeed(*words, "--resume"))
        # by the clock, where each step ends an epoch
        self.succeed(*words, *sets(name="clock", training__batch=250, training__epochs=8, output__checkpoint_minutes=1e-6), ranks=1)
        self.assertNotEqual(os.listdir(self.path("runs/clock/checkpoints")), [])

    def test_periodic(self):
        self.check(3, SGD, averager__every=4, averager__global_every=7, averager__momentum="averaged")
        self.check(2, ADAM, averager__every=8, averager__consensus_target=3, stops=(1, 1),
                   kept=["averager/consensus", "averager/period"])

    def test_averagers_with_a_state(self):
        self.check(2, ADAM, averager__name="easgd", kept=["averager/centre", "averager/started"])
        self.check(2, SGD, after=1, averager__name="fast", averager__sync_epochs=2, optimizer__learning_rate=0.02)
        self.check(2, ADAM, after=1, averager__name="fast", averager__sync_epochs=2)
        self.check(3, SGD, averager__codec="int8", averager__every=2, kept=["averager/estimate"])

    def test_graphs_that_change(self):
        self.check(3, SGD, after=1, averager__name="neighbour", topology__kind="random_matching")
        self.check(4, ADAM, averager__name="neighbour", topology__kind="one_peer_exponential", comm__force_put=True)
        self.check(3, SGD, averager__name="gossip_grad", topology__kind="rotating_exponential")

    def test_push_sum(self):
        weights, sent = "averager/push_sum_weights", "averager/push_sum_sent"
        self.check(3, SGD, averager__name="push_sum", topology__kind="star", kept=[weights])
        self.check_by_the_clock(4, ADAM, averager__name="push_sum", topology__kind="one_peer_exponential",
                                averager__overlap=True, stops=(1,), kept=[weights, sent])


class Resume(ProgramTest):
    def test_state_of_the_averager_is_dropped_out_loud(self):
        """Another averager, or another number of ranks, cannot use what one has kept."""
        words = ["train", SYNTHETIC, "--stop-after", 1, *sets(averager__every=4, averager__consensus_target=2)]
        self.succeed(*words, ranks=2)
        told = "NOTE: the averager's own state starts anew: "
        out = self.succeed(*words, "--resume", ranks=2)
        self.assertNotIn(told, out)
        out = self.succeed(*words, "--resume", ranks=1)
        self.assertIn(told + "it belongs to a different number of ranks", out)
        out = self.succeed(*words, "--resume", *sets(averager__every=1, averager__consensus_target=0), ranks=1)
        self.assertIn(told + "the checkpoint holds period (3), consensus (2), but this averager keeps none", out)

    def test_without_a_checkpoint_starts_from_the_beginning(self):
        out = self.succeed("train", SYNTHETIC, "--resume", ranks=2)
        self.assertIn("No checkpoint in runs/synthetic yet: starting from the beginning", out)
        self.assertEqual(read_metrics(self.path("runs/synthetic/metrics.h5"))["epoch/steps"].tolist(), [16, 32])

    def test_after_the_end_tells_what_was_reached(self):
        before = self.succeed_json("train", SYNTHETIC, ranks=2)
        replicas = read_replicas(self.path("runs/synthetic/checkpoint.h5"))
        values = self.succeed_json("train", SYNTHETIC, "--resume", ranks=2)
        for name in ("epochs", "steps", "mean_model_accuracy", "mean_model_loss", "test_accuracy",
                     "consensus_distance"):
            self.assertEqual(values[name], before[name], name)
        self.assertIsNone(values["train_loss"])
        out = self.succeed("train", SYNTHETIC, "--resume", ranks=2)
        self.assertIn("Nothing is left to train: training.epochs = 2 are done", out)
        self.assertRegex(out, rf"mean model +{100 * before['mean_model_accuracy']:.2f} %")
        for name, (values, _) in read_replicas(self.path("runs/synthetic/checkpoint.h5")).items():
            self.assert_same_bits(values, replicas[name][0], name)

    def test_more_epochs_go_on_where_the_run_ended(self):
        self.succeed("train", SYNTHETIC, ranks=2)
        first = read_metrics(self.path("runs/synthetic/metrics.h5"))
        self.succeed("train", SYNTHETIC, "--resume", *sets(training__epochs=3), ranks=2)
        last = read_metrics(self.path("runs/synthetic/metrics.h5"))
        self.assertEqual(last["epoch/steps"].tolist(), [16, 32, 48])
        for name in first:  # rows are kept, timings too
            self.assert_same_bits(first[name], last[name][:len(first[name])], name)
        with open(self.path("runs/synthetic/config.toml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^epochs = 3 ")

    def test_after_a_kill(self):
        """A node that dies takes the ranks along in the middle of a step, and leaves the metrics open."""
        words = [SYNTHETIC, *sets(training__epochs=200, data__synthetic_train=4096)]
        checkpoint = self.path("runs/silver/checkpoint.h5")
        with open(self.path("log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(launched(["train", *words, *sets(name="silver")], 2), cwd=self.folder, stdout=log,
                                       stderr=log, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        end = time.monotonic() + TIMEOUT
        while not os.path.exists(checkpoint) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        kill_ranks(process.pid)
        process.wait(TIMEOUT)
        with open(self.path("log"), encoding="utf-8") as log:
            self.assertNotIn("Done", log.read())  # mpiexec of MPICH 4.2 may end with status 0 all the same
        with h5py.File(checkpoint, "r") as file:
            done = int(file.attrs["epoch"])
        self.assertLess(done, 190)
        for name, resume in (("gold", []), ("silver", ["--resume"])):
            self.succeed("train", *words, *sets(name=name, training__epochs=done + 2), *resume, ranks=2)
        self.assert_same_runs("after a kill")


class Refusals(PreparedTest):
    words = ["train", "run.toml", *sets(name="run"), "--resume"]
    checkpoint = "runs/run/checkpoints/step_00000009.h5"

    def prepare(self):
        self.write("run.toml", RUN_FILE + SGD)
        self.succeed(*self.words, "--stop-after", 1, ranks=2)

    def test_another_network(self):
        text = (RUN_FILE + SGD).replace("channels = 6", "channels = 7")
        self.write("run.toml", text)
        self.refuse(*self.words, words=[self.checkpoint, "restarted", "conv1"])
        self.write("run.toml", text.replace('"restarted"', '"another"'))
        self.refuse(*self.words, words=[self.checkpoint, "'restarted'", "'another'"])

    def test_another_network_of_the_same_size(self):
        """As many parameters, yet each means something else."""
        self.write("run.toml", (RUN_FILE + SGD).replace('type = "max_pool"', 'type = "avg_pool"'))
        self.refuse(*self.words, words=[self.checkpoint, "max_pool1"])

    def test_another_optimizer(self):
        for optimizer in ("adagrad", "adam"):  # adagrad has as many buffers as SGD
            words = sets(optimizer__name=optimizer, optimizer__nesterov=False)
            self.refuse(*self.words, *words, words=[self.checkpoint, "'sgd'", f"'{optimizer}'"])

    def test_other_buffers(self):
        words = sets(optimizer__momentum=0, optimizer__nesterov=False)
        self.refuse(*self.words, *words, words=[self.checkpoint, "optimizer buffers"])

    def test_fewer_epochs_than_done(self):
        self.succeed(*self.words, ranks=2)
        self.refuse(*self.words, *sets(training__epochs=3), words=["step_00000036.h5", "4", "training.epochs = 3"])

    def test_cut_short(self):
        with open(self.path(self.checkpoint), "r+b") as file:
            file.truncate(os.path.getsize(file.name) // 2)
        self.refuse(*self.words, words=[self.checkpoint, "trunc"])

    def test_damaged(self):
        with h5py.File(self.path(self.checkpoint), "r+") as file:
            file["replica/parameters"][1, 5] += 1
        self.refuse(*self.words, words=[self.checkpoint, "replica/parameters"])

    def test_no_checkpoint_at_all(self):
        self.write(self.checkpoint, "not HDF5\n")
        self.refuse(*self.words, words=[self.checkpoint])

    def test_a_run_without_a_checkpoint(self):
        """--resume never throws away what a run without checkpoints has left, but a job that Slurm has queued again
        before its first checkpoint goes on: each time the metrics are kept under the next number."""
        left = {}
        for number in (1, 2):
            shutil.rmtree(self.path("runs/run/checkpoints"))
            left[f"runs/run/metrics.h5.{number}"] = contents(self.folder)["runs/run/metrics.h5"]
            self.succeed(*self.words, ranks=2)
            self.assertEqual(left | contents(self.folder), contents(self.folder))
            steps = read_metrics(self.path("runs/run/metrics.h5"))["epoch/steps"].tolist()
            self.assertEqual(steps, [9, 18, 27, 36])


if __name__ == "__main__":
    main()
