#!/usr/bin/env python3
"""The program that Debian's MPICH was linked with, on MPICH 5: the libraries share an ABI, and a run has the same bits.
tests/network/mpich5_long_test.py has it on several hosts. Takes what setup-debian.sh --mpich5 installs."""

import os
import sys

from program import DIGITS, IS_MPICH, PROGRAM, SOURCE, ProgramTest, execute, main, sets

PREFIX = os.path.join(SOURCE, ".deps", "mpich5")
ENVIRONMENT = {"LD_LIBRARY_PATH": os.path.join(PREFIX, "lib")}
SKIPPED = 77


class Mpich5(ProgramTest):
    def on_mpich5(self, *words):
        launcher = os.path.join(PREFIX, "bin", "mpiexec")
        result = execute([launcher, "-n", "2", PROGRAM, *map(str, words)], self.folder, ENVIRONMENT)
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        return result.out

    def test_the_bits_of_a_run(self):
        self.assertRegex(self.on_mpich5("--version"), "MPICH Version: +5")
        # halos by stores; by puts, and all-reduce, inside MPI
        for name, settings in (("stores", {}), ("puts", {"comm__force_put": True}), ("allreduce", {"averager__name": "allreduce"})):
            words = ["train", DIGITS, "--overwrite", *sets(training__epochs=1, training__threads=1, **settings)]
            self.succeed(*words, *sets(name="gold"), ranks=2)
            self.on_mpich5(*words, *sets(name="silver"))
            self.assert_same_runs(name)


if __name__ == "__main__":
    if not IS_MPICH or not os.path.exists(os.path.join(PREFIX, "lib", "libmpich.so.12")):
        print("*** MPICH 5 IS NOT TESTED HERE: it takes a program for MPICH and bash jobscripts/setup-debian.sh --mpich5 ***")
        sys.exit(SKIPPED)
    main()
