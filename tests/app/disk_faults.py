"""A disk that fails, or whose power is cut, at any call of a run: the library disk_faults.cpp is loaded before the program,
notes what it does to its files, and has calls fail. Shared by the short and the long test."""

import errno
import os
import random
import re
import shutil
import unittest
import zlib

import h5py

from faults import RESUMED
from program import PreparedTest, contents, sets
from resume_test import RUN_FILE, SGD
from stop_test import REQUEUE

SHIM = os.environ.get("HALOGRAD_TEST_DISK_SHIM", "")
PAGE = 4096
STRANGER = "notes.txt"  # a file in the run folder that is none of the program's
EPOCH = 3  # steps: few, for as many calls as a run makes are as many runs to test; and three checkpoints, of which one goes
RUN = sets(training__epochs=2, data__synthetic_train=90, output__checkpoint_steps=4, output__keep=2, output__print_steps=0)
COMPRESSED = [*RUN, *sets(output__compress=True)]
GROUPS = [*RUN, *sets(data__pad_crop=0, data__flip=False, parallel__spatial=[2, 1])]
ERRORS = {"write": errno.EIO, "read": errno.EIO, "room": errno.ENOSPC, "sync": errno.EIO, "name": errno.ESTALE,
          "open": errno.EMFILE, "memory": errno.ENOMEM}
OF_DISK = (errno.EIO, errno.ESTALE)  # a disk may do better later: the run is to be started again
FOR_GOOD = 10 ** 9  # from this call on all fail
CHECKPOINT = re.compile(r"checkpoints/step_(\d+)\.h5")


class File:
    def __init__(self, data=b""):
        self.data, self.durable = bytearray(data), bytes(data)


class Disk:
    """What notes of a run leave on a disk. Names are those of paths; they lead to a File, to a link's target or, for a
    folder, to None."""

    def __init__(self, folder):
        self.folder = folder
        self.names, self.inodes = {folder: None}, {}
        for parent, folders, names in os.walk(folder):
            for name in folders:
                self.names[os.path.join(parent, name)] = None
            for name in names:
                path = os.path.join(parent, name)
                if os.path.islink(path):
                    self.names[path] = os.readlink(path)
                    continue
                with open(path, "rb") as file:
                    self.names[path] = self.inodes[os.stat(path).st_ino] = File(file.read())
        self.durable = dict(self.names)

    def apply(self, call, words, data):
        if call == "create":
            self.names[words[1]] = self.inodes[words[0]] = File()
            self.inodes[words[0]].durable = b""
        elif call in ("write", "size"):
            file = self.inodes[words[0]].data
            end = int(words[1]) + len(data)
            file.extend(bytes(max(0, end - len(file))))
            if call == "size":
                del file[end:]
            file[end - len(data):end] = data
        elif call == "rename":
            self.names[words[1]] = self.names.pop(words[0])
        elif call == "remove":
            del self.names[words[0]]
        elif call in ("link", "folder"):
            self.names[words[0]] = words[1] if call == "link" else None
        elif words[1] in self.names and self.names[words[1]] is None:  # sync of a folder
            for names in (self.durable, self.names):
                for path in [path for path in names if os.path.dirname(path) == words[1]]:
                    self.durable.pop(path, None) if names is self.durable else self.durable.update({path: names[path]})
        else:
            file = self.inodes[words[0]]
            file.durable = bytes(file.data)

    def images(self, chance):
        """What a power cut may leave: path to bytes, to a link's target or to None, by what became of what was not synced."""
        def image(names, data):
            # a name without its folder is lost with it
            kept = {path: entry for path, entry in names.items() if self.reaches(names, path)}
            return {path: data(entry) if isinstance(entry, File) else entry for path, entry in kept.items()}

        def pages(file):
            """Some of the pages that were not synced have come to the disk, as the system writes them in any order."""
            old, new = file.durable, bytes(file.data)
            length = len(chance.choice((old, new)))
            return b"".join(chance.choice((old, new))[at:at + PAGE].ljust(PAGE, b"\0") for at in range(0, length, PAGE))[:length]

        yield "all is lost", image(self.durable, lambda file: file.durable)
        yield "names are kept", image(self.names, lambda file: file.durable)
        yield "all is kept", image(self.names, lambda file: bytes(file.data))
        yield "pages are mixed", image(self.names, pages)

    def reaches(self, names, path):
        return path == self.folder or path in names and self.reaches(names, os.path.dirname(path))


def read_notes(path):
    """(call, words, data) of each."""
    found = []
    with open(path, "rb") as file:
        for line in file:
            call, *words = line.decode().split()
            data = b""
            if call in ("create", "write", "size", "sync"):
                words[0] = int(words[0])
            if call == "write":
                data = file.read(int(words[2]))
            found.append((call, words, data))
    return found


def lay_out(image):
    for path, entry in sorted(image.items(), key=lambda item: item[0]):  # folders before what is in them
        if entry is None:
            os.makedirs(path, exist_ok=True)
        elif isinstance(entry, str):
            os.symlink(entry, path)
        else:
            with open(path, "wb") as file:
                file.write(entry)


def damaged_datasets(path):
    """Those of a checkpoint whose checksums are wrong."""
    found = []

    def look(name, item):
        if "crc32" in item.attrs:
            rows = item[()] if name.startswith("replica") else [item[()]]
            if [zlib.crc32(row.tobytes()) for row in rows] != list(item.attrs["crc32"]):
                found.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(look)
    return found


def disk_with_a_fault(folder, notes, fault):
    """The environment of a run that takes notes of what it does to a folder, and in which calls fail."""
    return {"LD_PRELOAD": ":".join(filter(None, [SHIM, os.environ.get("LD_PRELOAD")])), "HALOGRAD_TEST_DISK": folder,
            "HALOGRAD_TEST_DISK_NOTES": notes, "HALOGRAD_TEST_DISK_FAULT": fault}


@unittest.skipUnless(SHIM, "SKIPPED: no library may be loaded before the sanitizer's")
class DiskFaultTest(PreparedTest):
    settings = RUN
    # HDF5 and ROMIO try again to open a file, and halograd to read a checkpoint; what memory was wanted for may be dispensable
    may_go_on = ["open", "read", "memory"]

    def prepare(self):
        self.write("run.toml", RUN_FILE + SGD)
        self.succeed("train", "run.toml", *self.settings, *sets(name="gold"), ranks=2)

    def setUp(self):
        super().setUp()
        self.train = ["train", "run.toml", *self.settings, *sets(name="silver"), "--resume"]
        self.silver = self.path("runs/silver")
        self.whole = set()  # contents of checkpoints that were found to be

    def disk(self, fault=""):
        """The environment of a run that takes notes, and in which calls fail."""
        for name in ("notes", "job_notes"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        return {"HALOGRAD_JOB_NOTES": self.path("job_notes"),
                **disk_with_a_fault(self.silver, self.path("notes"), fault)}

    def begin(self, epochs):
        """The run folder: of a run that is to begin, or of one that was stopped after its first epoch."""
        shutil.rmtree(self.silver, ignore_errors=True)
        os.makedirs(self.silver)
        with open(os.path.join(self.silver, STRANGER), "w", encoding="utf-8") as file:
            file.write("not the program's")
        if epochs > 0:
            self.succeed(*self.train, "--stop-after", epochs, ranks=2)

    def check_folder(self, label):
        """All that is there under its own name is whole. Steps of the newest checkpoint, 0 where there is none."""
        found = contents(self.silver)
        steps = {name: int(CHECKPOINT.fullmatch(name).group(1)) for name in found if CHECKPOINT.fullmatch(name)}
        for name in [name for name in steps if found[name] not in self.whole]:
            self.assertEqual(damaged_datasets(os.path.join(self.silver, name)), [], f"{name}: {label}")
            self.whole.add(found[name])
        for link in ("checkpoint.h5", "best.h5"):
            if link in found:
                self.assertIn(found[link], found, f"{link} leads to nothing: {label}")
        self.assertEqual(found[STRANGER], b"not the program's", label)
        if "config.toml" in found:
            self.assertTrue(b'name = "silver"' in found["config.toml"], f"config.toml is not whole: {label}")
        return max(steps.values(), default=0)

    def go_on(self, label, least=0):
        """The run is continued undisturbed from this step or a later one, and ends as if nothing had happened."""
        result = self.run_program(*self.train, ranks=2)
        resumed = RESUMED.search(result.out)
        self.assertGreaterEqual(int(resumed.group(1)) if resumed else 0, least, f"{label}\n{result.out}")
        self.assertEqual((result.status, result.err), (0, ""), f"{label}\n{result.out}")
        self.assertNotIn("damaged", result.out, label)
        self.assert_same_runs(label)  # of what the links lead to
        self.assertEqual(self.check_folder(label), 2 * EPOCH, label)
        self.assertEqual([name for name in contents(self.silver) if "partial" in name], [], label)

    def steps_of_metrics(self, path=None):
        return self.succeed_json("inspect", path or os.path.join(self.silver, "metrics.h5"))["steps"]

    def check_kept(self, disk, notes, label):
        """Nothing that had been written by then is lost: not the newest checkpoint, nor metrics as of their last flush. Steps
        of that checkpoint. `disk`: as it was before the run that took these notes."""
        metrics = os.path.join(self.silver, "metrics.h5")
        newest = lambda: max((int(CHECKPOINT.search(path).group(1)) for path in disk.names if CHECKPOINT.search(path)), default=0)
        safe, flushed = newest(), b""
        for call, words, data in notes:
            if call == "failed":
                continue
            disk.apply(call, words, data)
            safe = max(safe, newest()) if call == "rename" else safe
            if (call == "sync" or call == "rename") and words[1] == metrics:
                flushed = bytes(disk.names[metrics].data)
        self.assertGreaterEqual(self.check_folder(label), safe, f"a checkpoint is lost: {label}")
        if flushed:
            with open(self.path("flushed.h5"), "wb") as file:
                file.write(flushed)
            self.assertGreaterEqual(self.steps_of_metrics(), self.steps_of_metrics(self.path("flushed.h5")), label)
        return safe

    def check_status(self, result, of_disk):
        """The script of a job learns whether it is to start the run again."""
        with open(self.path("job_notes"), encoding="utf-8") as file:
            said = [line.split()[0] for line in file if line.startswith(("died", "error"))]
        expected = (REQUEUE, {"died"}) if of_disk else (1, {"error"})
        self.assertEqual((result.status, set(said)), expected, result.err)

    def check_power_cuts(self, epochs, seed, stride=1, share=1.0, **settings):
        """The power is cut after every `stride`-th call of a run and each fsync: what is left is whole, and `share` of it,
        but some at least, is continued from."""
        chance = random.Random(seed)
        self.train += sets(**settings)
        self.begin(epochs)
        disk = Disk(self.silver)
        self.succeed(*self.train, ranks=2, environment=self.disk())
        self.assert_same_runs("while notes are taken")
        notes = read_notes(self.path("notes"))
        looked_at, continued, safe, flushed = set(), 0, 0, 0
        for number, (call, words, data) in enumerate(notes):
            disk.apply(call, words, data)
            if call != "sync" and number % stride != 0:
                continue
            synced = os.path.relpath(words[1], self.silver) if call == "sync" else ""
            for kind, image in disk.images(chance):
                label = f"{kind}, power cut after call {number + 1} of {len(notes)}: {call} {words}, seed {seed}"
                shutil.rmtree(self.silver)
                lay_out(image)
                steps = self.check_folder(label)
                self.assertGreaterEqual(steps, safe, f"a checkpoint is lost: {label}")
                checkpointed = kind == "all is lost" and synced == "checkpoints"
                if checkpointed:
                    safe = steps
                if kind == "all is lost" and synced == "metrics.h5":
                    flushed = self.steps_of_metrics()
                key = hash(tuple(sorted(image.items(), key=lambda item: item[0])))
                if key in looked_at or (chance.random() >= share and not (checkpointed and continued < 3)):
                    continue
                looked_at.add(key)
                if flushed > 0 and kind != "pages are mixed":
                    self.assertGreaterEqual(self.steps_of_metrics(), flushed, label)
                self.go_on(label, safe)
                continued += 1
        self.assertEqual((safe, flushed), (2 * EPOCH, 2 * EPOCH))
        self.assertGreater(continued, 0)
        print(f"the power was cut in {len(notes)} calls after {epochs} epochs, {continued} states of the disk were continued")

    def check_failures(self, call, epochs, rank=0, stride=1, first=1, for_good=False, most=FOR_GOOD, error=None, says=()):
        """Calls of this kind fail, one in each run or all from it on, in `most` runs: the run says so and ends, and can be
        continued from where it was."""
        error = error or ERRORS[call]
        base = self.path(f"base{epochs}")
        if not os.path.exists(base):
            self.begin(epochs)
            shutil.copytree(self.silver, base, symlinks=True)
        runs = 0
        for number in range(first, FOR_GOOD, stride)[:most]:
            shutil.rmtree(self.silver)
            shutil.copytree(base, self.silver, symlinks=True)
            last = FOR_GOOD if for_good else number
            label = f"{call} {number} to {last} of rank {rank} after {epochs} epochs"
            disk = Disk(self.silver)
            result = self.run_program(*self.train, ranks=2, environment=self.disk(f"{rank} {call} {number} {last} {error}"))
            notes = read_notes(self.path("notes"))
            if not any(what == "failed" for what, _, _ in notes):
                self.assertEqual(result.status, 0, f"{label}\n{result.err}")
                break
            runs += 1
            if call not in self.may_go_on or (result.status != 0 and call != "memory"):
                with self.subTest(label):
                    self.check_refused(result, "runs/silver", *says)
                    self.check_status(result, error in OF_DISK)
            self.go_on(label, self.check_kept(disk, notes, label))
        self.assertGreater(runs, 0, f"no call of this kind: {call}")
        print(f"{call} of rank {rank} after {epochs} epochs{' for good' if for_good else ''}: {runs} runs failed and continued")
