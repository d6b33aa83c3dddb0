#!/usr/bin/env python3
"""The cluster of lab.py is what it says: hosts of their own, with rates that hold, that leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
import unittest

from lab import Lab
from lab_tests import LabTest, main

# Sends as much as fits in two seconds to the next host; prints the Mbit/s.
SENDER = """
import socket, sys, time
link = socket.create_connection((sys.argv[1], 5000))
end, sent = time.monotonic() + 2, 0
while time.monotonic() < end:
    sent += link.send(bytes(65536))
"""
RECEIVER = """
import socket
server = socket.create_server(("", 5000))
link, _ = server.accept()
while link.recv(65536): pass
"""


class Cluster(LabTest):
    HOSTS = 2

    def output(self, *words, host=0):
        result = self.lab.start(words, self.folder, host=host, timeout=30).wait()
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        return result.out

    def test_hosts_have_names_memory_and_addresses(self):
        for host, name in enumerate(self.lab.names):
            self.assertEqual(self.output("hostname", host=host).strip(), name)
            self.assertEqual(self.output("ls", "/dev/shm", host=host), "")
            self.assertIn(self.lab.addresses[host], self.output("ip", "address", "show", "eth0", host=host))

    def test_no_more_than_the_rate_gets_through(self):
        for mbit in (100, 10):
            self.lab.set_rate(1, mbit)
            before = self.lab.received_bytes(1)
            receiver = self.lab.start([sys.executable, "-c", RECEIVER], self.folder, host=1, timeout=30)
            time.sleep(0.5)
            begin = time.monotonic()
            self.output(sys.executable, "-c", SENDER, self.lab.names[1])
            self.assertEqual(receiver.wait().status, 0, receiver.text())
            seconds = time.monotonic() - begin
            received = self.lab.received_bytes(1) - before
            self.assertLess(received * 8e-6 / seconds, 1.1 * mbit)
            self.assertGreater(received, 1e5)
        self.lab.set_rate(1, 1000)

    def test_a_cut_host_is_heard_no_more(self):
        with Lab(hosts=2) as lab:
            ping = ["timeout", "2", sys.executable, "-c", SENDER, lab.names[1]]
            self.assertEqual(lab.start(ping, self.folder, timeout=30).wait().status, 1)  # refused: nobody listens there
            lab.cut(1)
            self.assertEqual(lab.start(ping, self.folder, timeout=30).wait().status, 124)

    def test_nothing_is_left_behind_by_a_user_who_is_killed(self):
        mark = f"{time.time_ns()}"
        user = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); from lab import Lab; lab = Lab(2); "
             "run = lab.start(['sleep', '1000.' + sys.argv[2]], '/', timeout=1000); print(lab.folder, flush=True); run.wait()",
             os.path.dirname(os.path.abspath(__file__)), mark], stdout=subprocess.PIPE, encoding="utf-8")
        folder = user.stdout.readline().strip()
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=False)

        def sleepers():
            return subprocess.run(["pgrep", "-f", f"^sleep 1000.{mark}"], check=False, capture_output=True).stdout

        end = time.monotonic() + 20
        while not sleepers() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(sleepers())
        user.send_signal(signal.SIGKILL)
        user.wait()
        user.stdout.close()
        while sleepers() and time.monotonic() < end + 20:
            time.sleep(0.05)
        self.assertFalse(sleepers())


if __name__ == "__main__":
    main()
