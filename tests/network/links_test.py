#!/usr/bin/env python3
"""What the start table says of the links between hosts is what they are."""

import re

from lab import CannotRun, Lab
from lab_tests import DIGITS, PROGRAM, LabTest, main, sets

LINKS = re.compile(r"links +(\S+) MB/s by MPI_Put, (\S+) MB/s by messages, latency (\S+) us, from the slowest of (\d) nodes")
SHARE = re.compile(r"between nodes +(\S+) kB leave a node per step, which takes (\S+) s at that rate, "
                   r"(\S+) % of the time that a step computes for \((\S+) s\)")
SENT = 2 * 4 * 38330e-3  # kB: a replica of the digits' network to two neighbours
COMPUTE = 0.03  # seconds, at least


def numbers(pattern, out):
    found = pattern.search(out)
    assert found, out
    return [float(number) for number in found.groups()]


class Links(LabTest):
    HOSTS = 4

    def start_table(self, lab):
        words = sets(comm__inject__compute_us=round(1e6 * COMPUTE))
        result = lab.run([PROGRAM, "train", DIGITS, "--check", *words], folder=self.folder)
        self.assertEqual(result.status, 0, result.out + result.err)
        return result.out

    def test_their_rate_and_the_share_that_the_exchange_takes(self):
        for mbit in (200, 50):
            for host in range(self.HOSTS):
                self.lab.set_rate(host, mbit)
            out = self.start_table(self.lab)
            put, send, _, nodes = numbers(LINKS, out)
            self.assertEqual(nodes, self.HOSTS)
            rate = mbit / 8
            print(f"{rate} MB/s by tc, {put} by MPI_Put, {send} by messages")
            for found in (put, send):
                # The bucket lets 72 kB through at once, of an exchange of 256 kB and more; other work makes it slower.
                self.assertLess(found, 2 * rate, out)
                self.assertGreater(found, 0.05 * rate, out)
            sent, seconds, share, computing = numbers(SHARE, out)
            self.assertAlmostEqual(sent, SENT, delta=0.01 * SENT)
            self.assertAlmostEqual(seconds, 1e-3 * sent / put, delta=0.01 * seconds)
            self.assertAlmostEqual(share, 100 * seconds / computing, delta=0.01 * share)
            self.assertGreaterEqual(computing, COMPUTE)
        self.assertRegex(out, "pieces of 16 kB: a link is below 30 MB/s")

    def test_their_latency(self):
        delay = 5  # ms
        try:
            lab = Lab(2, delay_ms=delay, mpi=self.lab.mpi)
        except CannotRun as reason:
            self.skipTest(f"hosts cannot be far from each other: {reason}")
        with lab:
            _, _, latency, _ = numbers(LINKS, self.start_table(lab))
        self.assertGreaterEqual(latency, 1000 * delay)
        self.assertLess(latency, 10 * 1000 * delay)


if __name__ == "__main__":
    main()
