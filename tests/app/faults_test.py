#!/usr/bin/env python3
"""What may happen to a run and its folder: kills, full disks, damage, strangers' files, a second job."""

import os
import shutil
import subprocess

import h5py

from faults import EPOCH, FaultTest
from program import ASLEEP, PreparedTest, contents, kill_ranks, main, sets
from resume_test import RUN_FILE, SGD


class Kills(FaultTest):
    def test_at_random_moments(self):
        self.check_kills(kills=4, ranks=2, seed=1)

    def test_with_a_checkpoint_every_five_steps(self):
        self.check_kills(kills=4, ranks=2, seed=2, every=5)


class Damage(PreparedTest):
    run_words = ["train", "run.toml", *sets(training__epochs=3)]
    words = [*run_words, *sets(name="silver")]
    newest = f"runs/silver/checkpoints/step_{2 * EPOCH:08d}.h5"
    before = f"runs/silver/checkpoints/step_{EPOCH:08d}.h5"

    def prepare(self):
        self.write("run.toml", RUN_FILE + SGD)
        self.succeed(*self.run_words, *sets(name="gold"), ranks=2)
        self.succeed(*self.words, "--stop-after", 2, ranks=2)

    def resume_without_the_newest(self, *words):
        out = self.succeed(*self.words, "--resume", ranks=2)
        self.assertIn(f"Skipped a damaged checkpoint: {self.newest}", out)
        for word in words:
            self.assertIn(word, out)
        self.assertIn(f"Resumed from {self.before}: 1 epochs", out)
        self.assertTrue(os.path.exists(self.path(self.newest + ".damaged")))
        self.assert_same_runs("after damage")

    def test_a_flipped_bit(self):
        with h5py.File(self.path(self.newest), "r") as file:
            at = file["replica/parameters"].id.get_offset() + 123
        with open(self.path(self.newest), "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 4]))
        self.resume_without_the_newest("/replica/parameters", "row 0", "checksum")

    def test_a_flipped_bit_in_the_mean(self):
        with h5py.File(self.path(self.newest), "r+") as file:
            file["mean/conv1/weight"][0, 0, 0, 0] += 1
        self.resume_without_the_newest("/mean/conv1/weight", "checksum")

    def test_cut_short(self):
        os.truncate(self.path(self.newest), os.path.getsize(self.path(self.newest)) // 2)
        self.resume_without_the_newest("trunc")

    def test_a_strangers_file(self):
        os.remove(self.path(self.newest))
        with h5py.File(self.path(self.newest), "w") as file:
            file["temperature"] = [1, 2, 3]
        self.resume_without_the_newest("no attribute 'format'")

    def test_a_newer_format(self):
        """It may hold more than this program knows: going back behind it would throw work away."""
        with h5py.File(self.path(self.newest), "r+") as file:
            file.attrs["format_version"] = 99
        self.refuse(*self.words, "--resume", words=[self.newest, "format_version 99", "newer halograd"])

    def test_nothing_whole(self):
        for path in (self.newest, self.before):
            os.truncate(self.path(path), 100)
        self.refuse(*self.words, "--resume", words=["no checkpoint in", self.newest, self.before, "--overwrite"])


class Folder(FaultTest):
    def test_a_second_job_is_refused(self):
        run = self.write("run.toml", RUN_FILE + SGD)
        words = ["train", run, *ASLEEP, *sets(training__epochs=100000, output__print_steps=0)]
        process = self.start(words, 2)
        self.until(process, "consensus")
        for switch in ([], ["--resume"], ["--overwrite"]):
            result = self.run_program(*words, *switch, ranks=2)
            self.check_refused(result, "runs/run is in use by process", "--set name=")
        self.assertIsNone(process.poll(), self.log())
        kill_ranks(process.pid)  # the lock goes with its holder
        process.wait(60)
        out = self.succeed("train", run, *sets(training__epochs=1), "--overwrite", ranks=2)
        self.assertIn("Done", out)

    def test_newest_best_and_kept(self):
        run = self.write("run.toml", RUN_FILE + SGD)
        self.succeed("train", run, *sets(output__keep=3, output__checkpoint_steps=4), ranks=2)
        names = sorted(os.listdir(self.path("runs/run/checkpoints")))
        best = os.readlink(self.path("runs/run/best.h5"))
        newest = [f"step_{step:08d}.h5" for step in (28, 32, 36)]
        self.assertEqual(names, sorted({*newest, os.path.basename(best)}))
        self.assertEqual(os.readlink(self.path("runs/run/checkpoint.h5")), "checkpoints/step_00000036.h5")
        with h5py.File(self.path("runs/run/metrics.h5"), "r") as file:
            accuracy, loss = (file[f"epoch/mean_model_{name}"][()] for name in ("accuracy", "loss"))
            steps = file["epoch/steps"][()]
        order = sorted(range(len(steps)), key=lambda i: (accuracy[i], -loss[i]))
        self.assertEqual(best, f"checkpoints/step_{steps[order[-1]]:08d}.h5")

    def test_a_full_disk(self):
        disk = self.path("disk")
        os.makedirs(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("this user may not mount a small disk")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", disk], check=True))
        run = self.write("run.toml", RUN_FILE + SGD)
        words = ["train", run, *sets(output__folder=disk, output__keep=1000, output__checkpoint_steps=1,
                                     training__epochs=1000)]
        result = self.run_program(*words, ranks=2)
        self.check_refused(result, f"{disk}/run/", "No space left on device")
        kept = sorted(os.listdir(os.path.join(disk, "run/checkpoints")))
        self.assertGreater(len(kept), 1)
        for name in kept:  # each is whole, and nothing half-written is left
            self.succeed("inspect", os.path.join(disk, "run/checkpoints", name), "--json")
        before = contents(disk)
        for name in kept[:-1]:
            os.remove(os.path.join(disk, "run/checkpoints", name))
        last = int(kept[-1][5:-3])
        out = self.succeed(*words, "--resume", *sets(output__keep=1, training__epochs=last // EPOCH + 2), ranks=2)
        self.assertIn(f" {last} steps in total", out)
        self.assertIn(os.path.join("run/checkpoints", kept[-1]), before)
        shutil.rmtree(os.path.join(disk, "run"))


class OtherRanks(FaultTest):
    """A run that goes on on another number of ranks: from the mean, loudly, at the same place."""

    def check(self, first, second, *words, **settings):
        run = self.write("run.toml", RUN_FILE + SGD)
        # six steps into the third epoch, three before its end
        train = ["train", run, *sets(name="run", output__checkpoint_steps=12, output__checkpoint_epochs=0)]
        self.succeed(*train, *sets(training__epochs=3), "--overwrite", ranks=first)
        out = self.succeed(*train, *sets(training__epochs=4, **settings), "--resume", ranks=second)
        self.assertIn("Resumed from runs/run/checkpoints/step_00000024.h5: 2 epochs and 6 steps, 24 steps in total", out)
        for word in words:
            self.assertIn(word, out)
        with h5py.File(self.path("runs/run/metrics.h5"), "r") as file:
            loss = file["step/loss"][()]
            self.assertEqual(loss.shape, (36, max(first, second)))
            self.assertEqual(file.attrs["ranks"], max(first, second))
            self.assertEqual(int((loss[:24] == loss[:24]).sum()), 24 * first)
            self.assertEqual(int((loss[24:] == loss[24:]).sum()), 12 * second)
            self.assertEqual(file["epoch/steps"][()].tolist(), [9, 18, 27, 36])
        return out

    def optimizer_steps(self):
        with h5py.File(self.path("runs/run/checkpoint.h5"), "r") as file:
            return int(file.attrs["optimizer_steps"])

    def test_fewer_and_more(self):
        note = "NOTE: the checkpoint is from a run on {} ranks, but this job has {}: all replicas start from the mean of those {}"
        self.check(3, 2, note.format(3, 2, 3), "the optimizer's state from the mean of their states")
        self.assertEqual(self.optimizer_steps(), 36)
        self.check(2, 3, note.format(2, 3, 2), "from zero", training__resumed_optimizer="reset")
        self.assertEqual(self.optimizer_steps(), 12)

    def test_allreduce_goes_on_as_if_nothing_had_happened(self):
        """Replicas that are all the same are their mean: only the order of sums is another."""
        run = self.write("run.toml", RUN_FILE.replace("probability = 0.3", "probability = 0.0")
                         .replace('type = "batch_norm"', 'type = "relu"') + SGD)
        words = ["train", run, *sets(averager__name="allreduce")]
        straight = self.succeed_json(*words, *sets(name="straight"), ranks=2)
        self.succeed(*words, *sets(name="moved"), "--stop-after", 2, ranks=3)
        moved = self.run_program(*words, *sets(name="moved"), "--resume", ranks=2)
        self.assertEqual(moved.status, 0, moved.err)
        with h5py.File(self.path("runs/moved/metrics.h5"), "r") as file:
            self.assertAlmostEqual(file["epoch/mean_model_loss"][-1], straight["mean_model_loss"], delta=1e-4)

    def test_another_averager_and_batch(self):
        self.check(2, 2, "NOTE: the averager was neighbour combine_then_adapt on ring and is allreduce",
                   averager__name="allreduce")


if __name__ == "__main__":
    main()
