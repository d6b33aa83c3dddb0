#!/usr/bin/env python3
"""A disk that fails, and power cuts, at some of the calls of a run."""

import errno

from disk_faults import COMPRESSED, FOR_GOOD, GROUPS, DiskFaultTest
from program import main


class PowerCuts(DiskFaultTest):
    def test_of_a_new_run(self):
        self.check_power_cuts(epochs=0, seed=1, stride=29, share=0.02)

    def test_of_a_run_that_is_resumed(self):
        self.check_power_cuts(epochs=1, seed=2, stride=29, share=0.02, output__keep_best=False)


class Failures(DiskFaultTest):
    def test_of_writes(self):
        self.check_failures("write", epochs=1, stride=149, first=37, most=3)
        self.check_failures("write", epochs=1, rank=1, most=1)
        self.check_failures("room", epochs=1, stride=11, most=2)

    def test_of_names(self):
        self.check_failures("sync", epochs=1, stride=11, most=3, for_good=True)
        self.check_failures("name", epochs=1, stride=11, most=2)
        self.check_failures("open", epochs=1, stride=23, most=3)

    def test_of_memory(self):
        self.check_failures("memory", epochs=1, stride=19001, first=29, most=2)


class NoLocks(DiskFaultTest):
    def test_a_run_says_so_once_and_goes_on(self):
        self.begin(0)
        # as on Lustre without -o flock, and on NFS without a daemon for locks
        for words, error in ((["--stop-after", 1], errno.ENOSYS), ([], errno.ENOLCK)):
            fault = self.disk(f"0 lock 1 {FOR_GOOD} {error}")
            out = self.succeed(*self.train, *words, ranks=2, environment=fault)
            self.assertEqual(out.count("The file system of runs/silver has no locks: "), 1, out)
        self.assertIn("Resumed from", out)
        self.assert_same_runs("without locks")


class FailuresOfCompression(DiskFaultTest):
    settings = COMPRESSED

    def test_of_writes(self):
        self.check_failures("write", epochs=1, rank=1, most=1)
        self.check_failures("room", epochs=1, most=1)


class FailuresOfAGroup(DiskFaultTest):
    """One of its ranks writes the files; the others hear of it."""
    settings = GROUPS

    def test_of_writes(self):
        self.check_failures("write", epochs=1, stride=299, first=37, most=2)
        self.check_failures("sync", epochs=1, most=1)


if __name__ == "__main__":
    main()
