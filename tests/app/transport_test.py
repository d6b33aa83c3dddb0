#!/usr/bin/env python3
"""What carries halos between nodes, where the self-test at the start finds MPI_Put slow."""

import os
import shutil
import subprocess
import unittest

from program import DIGITS, IS_MPICH, PROGRAM, ProgramTest, execute, main, sets

# Each put takes 50 ms longer, and adds a byte to a file of its rank.
SLOW_PUTS = r"""
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int PMPI_Rput(const void*, int, int, int, long, int, int, int, int*);

int MPI_Rput(const void* from, int count, int type, int rank, long place, int there, int type_there, int window,
             int* request) {
  char name[64];
  snprintf(name, sizeof name, "puts_%d", (int)getpid());
  const int file = open(name, O_CREAT | O_APPEND | O_WRONLY, 0666);
  if (write(file, ".", 1) != 1) return 1;
  close(file);
  usleep(50000);
  return PMPI_Rput(from, count, type, rank, place, there, type_there, window, request);
}
"""


@unittest.skipUnless(IS_MPICH, "it is MPICH that takes ranks of one machine for those of two")
class SlowPuts(ProgramTest):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no C compiler for puts that are slow")
        self.write("puts.c", SLOW_PUTS)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.path("puts.so"), self.path("puts.c")], check=True)
        libraries = [self.path("puts.so"), *os.environ.get("LD_PRELOAD", "").split()]
        self.environment = {"LD_PRELOAD": " ".join(libraries), "MPIR_CVAR_NUM_CLIQUES": "2"}
        if execute([PROGRAM, "--version"], self.folder, self.environment).status != 0:  # built with a sanitizer
            self.skipTest("the program does not start with other puts")

    def train(self, *words, ranks=2):
        """What it says, and how often all ranks have put."""
        short = sets(training__epochs=1, training__batch=719)
        out = self.succeed("train", DIGITS, *short, *words, "--overwrite", ranks=ranks, environment=self.environment)
        names = [name for name in os.listdir(self.folder) if name.startswith("puts_")]
        puts = sum(os.path.getsize(self.path(name)) for name in names)
        for name in names:
            os.remove(self.path(name))
        return out, puts

    def test_what_travels_by_messages(self):
        out, self_test = self.train(*sets(averager__name="allreduce"))  # the self-test alone puts
        self.assertRegex(out, r"links +\S+ MB/s by MPI_Put, .* from the slowest of 2 nodes")
        self.assertNotIn("halos travel by messages", out)
        self.assertGreater(self_test, 0)
        # between replicas, and within one
        for words, ranks in (([], 4), (sets(parallel__spatial=[2, 1]), 2)):
            out, puts = self.train(*words, ranks=ranks)
            self.assertRegex(out, r"transport +halos travel by messages: MPI_Put reaches \S+ MB/s from rank")
            self.assertEqual(puts, self_test)
        out, puts = self.train(*sets(comm__transport="put"))
        self.assertNotIn("halos travel by messages", out)
        self.assertGreater(puts, self_test)


@unittest.skipUnless(IS_MPICH, "it is MPICH that takes ranks of one machine for those of two")
class TwoNodes(ProgramTest):
    def test_a_node_of_ranks_that_share_no_memory(self):
        for ranks_per_node in (2, 4):  # MPICH deals ranks to them in turn
            self.refuse("train", DIGITS, *sets(averager__name="hierarchical", comm__ranks_per_node=ranks_per_node),
                        words=[f"comm.ranks_per_node = {ranks_per_node}", "ranks 0 and 1", "do not share memory"], ranks=4,
                        environment={"MPIR_CVAR_NUM_CLIQUES": "2"})


if __name__ == "__main__":
    main()
