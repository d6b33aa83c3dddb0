#!/usr/bin/env python3
"""What a run meets outside of itself: files it may not touch, a node without its disk, clocks that jump, a crash."""

import os
import re
import shutil
import subprocess
import time
import unittest

import h5py
import numpy as np

from faults import FaultTest
from image_files import write_classes
from program import (ASLEEP, INPUTS, IS_OPEN_MPI, PROGRAM, SYNTHETIC, ProgramTest, execute, kill_ranks, launched, main,
                     read_metrics, sets)
from resume_test import RUN_FILE, SGD

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]

# A wall clock that jumps an hour back or ahead each 50 ms; the steady clock is left alone, as a system's is.
JUMPING_CLOCK = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
  struct timespec steady;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
  return 3600 * ((steady.tv_sec * 20 + steady.tv_nsec / 50000000) % 3 - 1);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  struct timespec time;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


class Permissions(ProgramTest):
    """As a user who owns nothing but the folder that the program runs in."""

    def setUp(self):
        super().setUp()
        self.prefix = []
        if os.geteuid() == 0:
            self.prefix = NOBODY
            os.chmod(self.folder, 0o777)
            program = shutil.copy(PROGRAM, self.path("halograd"))  # a checkout may lie where nobody else may go
            if not shutil.which("setpriv") or execute([*NOBODY, program, "--version"], self.folder).status != 0:
                self.skipTest("the program does not start as another user")
            self.program = program
        else:
            self.program = PROGRAM
        shutil.copy(SYNTHETIC, self.path("run.toml"))
        self.readable()

    def readable(self):
        for parent, folders, names in os.walk(self.folder):
            for name in folders:
                os.chmod(os.path.join(parent, name), 0o777)
            for name in names:
                if name != "halograd":
                    os.chmod(os.path.join(parent, name), 0o666)

    def run_as(self, *arguments, ranks=2):
        words = [self.program, *launched(arguments, ranks)[launched(arguments, ranks).index(PROGRAM) + 1:]]
        launcher = launched(arguments, ranks)[:launched(arguments, ranks).index(PROGRAM)]
        return execute([*self.prefix, *launcher, *words], self.folder, {"LD_PRELOAD": ""})  # out of the other user's reach

    def forbid(self, name, *arguments, words=(), mode=0, ranks=2):
        """The program is refused a file or folder: it names it, and leaves all files as they were."""
        path = self.path(name)
        before = os.stat(path)
        os.chown(path, 0, 0) if self.prefix else None
        os.chmod(path, mode)
        inside = sorted(os.listdir(self.folder)), self.tree()
        result = self.run_as(*arguments, ranks=ranks)
        self.check_refused(result, *(words or [name, "Permission denied"]))
        self.assertEqual((sorted(os.listdir(self.folder)), self.tree()), inside)
        os.chown(path, before.st_uid, before.st_gid) if self.prefix else None
        os.chmod(path, before.st_mode)

    def tree(self):
        """Names, sizes and times below runs/."""
        found = {}
        for parent, _, names in os.walk(self.path("runs")):
            for name in names:
                status = os.lstat(os.path.join(parent, name))
                found[os.path.join(parent, name)] = (status.st_size, status.st_mtime_ns)
        return found

    def test_the_run_file_and_the_folder_of_runs(self):
        self.forbid("run.toml", "train", "run.toml")
        os.makedirs(self.path("runs"))
        self.forbid("runs", "train", "run.toml", mode=0o555, words=["runs/synthetic", "Permission denied"])

    def test_a_run_of_somebody_else(self):
        train = ["train", "run.toml"]
        result = self.run_as(*train, *sets(output__keep=3))
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        more = [*train, "--resume", *sets(training__epochs=3, output__keep=3)]
        newest = "runs/synthetic/checkpoints/step_00000032.h5"
        # it may be whole: going back behind it would throw work away
        self.forbid(newest, *more)
        self.forbid("runs/synthetic/checkpoints", *more)
        self.forbid("runs/synthetic/checkpoints", *more, mode=0o555)
        self.forbid("runs/synthetic/metrics.h5", *more)
        self.forbid("runs/synthetic/lock", *more, mode=0o444)
        self.forbid("runs/synthetic", *more)
        self.forbid("runs/synthetic", *more, mode=0o555)
        self.forbid(newest, "evaluate", newest)
        self.forbid(newest, "inspect", newest, ranks=0)
        self.forbid("runs/synthetic/metrics.h5", "watch", "runs/synthetic", "--once", ranks=0)
        result = self.run_as(*more)
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        self.assertIn(f"Resumed from {newest}", result.out)

    def test_data(self):
        shutil.copy(os.path.join(INPUTS, "digits.h5"), self.path("digits.h5"))
        shutil.copy(os.path.join(INPUTS, "digits.toml"), self.path("digits.toml"))
        self.readable()
        self.forbid("digits.h5", "train", "digits.toml")
        os.makedirs(self.path("cifar"))
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            with open(self.path("cifar", name), "wb") as file:
                file.write(bytes(3073) * 20)
        os.makedirs(self.path("idx"))
        for name, magic, extents in (("images-idx3", 0x803, [20, 8, 8]), ("labels-idx1", 0x801, [20])):
            for split in ("train", "t10k"):
                with open(self.path("idx", f"{split}-{name}-ubyte"), "wb") as file:
                    file.write(np.array([magic, *extents], ">i4").tobytes() + bytes(int(np.prod(extents))))
        self.readable()
        for form, name in (("cifar10", "cifar/data_batch_3.bin"), ("idx", "idx/train-images-idx3-ubyte")):
            words = ["train", "run.toml", *sets(data__format=form, data__path=os.path.dirname(name), training__batch=4)]
            self.forbid(name, *words, words=[name])
            self.forbid(os.path.dirname(name), *words, words=[os.path.dirname(name)])

    def test_images_and_the_place_for_their_file(self):
        write_classes(self.path("photos"), {"ant": 3, "bee": 3})
        self.readable()
        result = self.run_as("import", "photos", "--output", "photos.h5", ranks=0)
        if "built without" in result.err:
            self.skipTest("SKIPPED: this halograd was built without libpng and libjpeg-turbo")
        self.assertEqual(result.status, 0, result.err)
        os.remove(self.path("photos.h5"))
        again = ["import", "photos", "--output", "out/photos.h5"]
        os.makedirs(self.path("out"))
        self.forbid("out", *again, mode=0o555, ranks=0, words=["out/photos.h5.partial", "Permission denied"])
        os.chmod(self.path("out"), 0o777)
        self.forbid("photos/bee", *again, ranks=0)
        image = os.path.join("photos/ant", sorted(os.listdir(self.path("photos/ant")))[0])
        self.forbid(image, *again, ranks=0, words=["1 of 6 images", os.path.relpath(image, "photos")])

    def test_a_disk_of_the_node_that_may_not_be_written(self):
        shutil.copy(os.path.join(INPUTS, "digits.h5"), self.path("digits.h5"))
        shutil.copy(os.path.join(INPUTS, "digits.toml"), self.path("digits.toml"))
        os.makedirs(self.path("disk"))
        self.readable()
        os.chmod(self.path("disk"), 0o555)
        result = self.run_as("train", "digits.toml", *sets(training__epochs=1, data__cache_folder=self.path("disk")))
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(result.err, f"halograd: warning: rank 0: data.cache_folder: {self.path('disk')}: Permission denied; "
                         "the run continues without it\n")


@unittest.skipUnless(IS_OPEN_MPI, "Open MPI's networks")
class PlainNetwork(ProgramTest):
    def test_one_sided_communication_over_tcp(self):
        """Open MPI has none unless told; what the refusal says is what it has to be told."""
        train = ["train", SYNTHETIC, *sets(comm__force_put=True, training__epochs=1)]
        tcp = {"OMPI_MCA_btl": "tcp,self"}
        refused = self.run_program(*train, ranks=2, environment=tcp)
        self.check_refused(refused, "this MPI has no one-sided communication between these ranks", "docs/building.md")
        told = dict(re.findall(r"(OMPI_MCA_\w+)=(\S+)", refused.err))
        self.assertIn("OMPI_MCA_osc", told)
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        result = self.run_program(*train, ranks=2, environment=told | {"UCX_TLS": "tcp,self"})
        self.assertEqual(result.status, 0, result.err)
        self.assertTrue(np.isfinite(read_metrics(self.path("runs/synthetic/metrics.h5"))["epoch/test_loss"]).all())


class NodesDisk(ProgramTest):
    def test_missing(self):
        """One warning for a node, and the run goes on from the file with the same losses."""
        train = ["train", os.path.join(INPUTS, "digits.toml"), *sets(training__epochs=1)]
        self.succeed(*train, *sets(name="gold"), ranks=2)
        self.write("file", "no folder")
        for name in ("nowhere", "file"):
            words = [*train, *sets(name="silver", data__cache_folder=self.path(name)), "--overwrite"]
            result = self.run_program(*words, ranks=2)
            self.assertEqual(result.status, 0, result.err)
            self.assertRegex(result.err, rf"^halograd: warning: rank 0: data.cache_folder: {self.path(name)}: "
                             r".*folder; the run continues without it\n$")
            self.assert_same_runs(name)


class Clock(ProgramTest):
    def test_jumps(self):
        with open(self.path("clock.c"), "w", encoding="utf-8") as file:
            file.write(JUMPING_CLOCK)
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no C compiler for the clock that jumps")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self.path("clock.so"), self.path("clock.c")], check=True)
        # Open MPI's library for Omni-Path measures the processor's clock by the wall clock and tells what it thinks of it.
        preload = {"LD_PRELOAD": self.path("clock.so"), "OMPI_MCA_pml": "ob1"}
        if execute([PROGRAM, "--version"], self.folder, preload).status != 0:  # built with a sanitizer, for example
            self.skipTest("the program does not start with another clock")
        times = []
        while not times or max(times) - min(times) < 3000:
            self.assertLess(len(times), 100, "the clock does not jump")
            times.append(int(execute(["date", "+%s"], self.folder, preload).out))
        run = self.write("run.toml", RUN_FILE + SGD)
        train = ["train", run, *sets(training__epochs=6, comm__inject__compute_us=5000)]
        self.succeed(*train, *sets(name="gold"), ranks=2)
        begin = time.monotonic()
        self.succeed(*train, *sets(name="silver"), "--stop-after", 3, ranks=2, environment=preload)
        out = self.succeed(*train, *sets(name="silver"), "--resume", ranks=2, environment=preload)
        wall = time.monotonic() - begin
        self.assert_same_runs("with a clock that jumps")
        metrics = read_metrics(self.path("runs/silver/metrics.h5"))
        for name, values in metrics.items():
            if name.endswith("seconds"):
                self.assertGreaterEqual(values.min(), 0, name)
                self.assertLess(values.max(), wall, name)
        self.assertLess(metrics["epoch/seconds"].sum(), wall)
        self.assertRegex(out, r"  time +0:\d\d,")
        limited = ["train", run, *ASLEEP, *sets(name="limited", training__epochs=1000000, output__print_steps=0)]
        begin = time.monotonic()
        result = execute(launched([*limited, "--time-limit", 7], 2), self.folder, preload)
        self.assertEqual(result.status, 75, result.out + result.err)
        self.assertLess(time.monotonic() - begin, 60)
        rows = len(read_metrics(self.path("runs/limited/metrics.h5"))["step/loss"])
        self.assertGreater(rows, 10, "stopped by the clock that jumps")
        watched = self.succeed("watch", "runs/limited", "--once", environment=preload)
        self.assertIn("limited: stopped before its end", watched)

    def test_files_of_the_future(self):
        """A clock that was set back leaves files that seem newer than all that follows."""
        run = self.write("run.toml", RUN_FILE + SGD)
        train = ["train", run, *sets(output__keep=9)]
        self.succeed(*train, *sets(name="gold"), ranks=2)
        self.succeed(*train, *sets(name="silver"), "--stop-after", 2, ranks=2)
        ahead = time.time() + 1e6
        for path, at in (("checkpoints/step_00000009.h5", ahead + 1e6), ("checkpoints/step_00000018.h5", ahead),
                         ("metrics.h5", ahead), ("config.toml", ahead), ("lock", ahead)):
            os.utime(self.path("runs/silver", path), (at, at))
        out = self.succeed(*train, *sets(name="silver"), "--resume", ranks=2)
        self.assertIn("Resumed from runs/silver/checkpoints/step_00000018.h5", out)
        self.assert_same_runs("with files of the future")


class Crash(FaultTest):
    def test_metrics_that_a_kill_left_open(self):
        run = self.write("run.toml", RUN_FILE + SGD)
        words = ["train", run, *ASLEEP, *sets(training__epochs=100000, output__print_steps=0)]
        process = self.start(words, 2)
        self.until(process, "^ *4/100000 ")  # each epoch waits until that before the last is written
        self.assertIsNone(process.poll(), self.log())
        kill_ranks(process.pid)
        process.wait(60)
        path = self.path("runs/run/metrics.h5")
        with open(path, "rb") as file:
            self.assertEqual(file.read(12)[11] & 5, 5)  # HDF5's mark of a writer
        with h5py.File(path, "r", libver="latest", swmr=True) as file:
            rows = [file[f"{group}/{name}"].shape[0] for group in ("step", "epoch") for name in file[group]]
            self.assertGreater(min(rows), 0)
            self.assertTrue(np.isfinite(file["step/loss"][()]).all())
        done = self.succeed_json("inspect", path)["epochs"]
        self.assertGreater(done, 0)
        self.assertIn("training", self.succeed("watch", "runs/run", "--once"))
        out = self.succeed("train", run, *sets(training__epochs=done + 1), "--resume", ranks=2)
        self.assertIn("Resumed from", out)
        self.assertEqual(len(read_metrics(path)["epoch/steps"]), done + 1)  # opened as any file


if __name__ == "__main__":
    main()
