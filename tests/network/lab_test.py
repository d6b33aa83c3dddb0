#!/usr/bin/env python3
"""The cluster of lab.py is what it says: hosts of their own, with rates that hold, that leave nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import time

from lab import Lab
from lab_tests import LabTest, main

# Sends as much to another host as fits in a second. Its arguments: that host, and the seconds that it has to answer.
SENDER = """
import socket, sys, time
link = socket.create_connection((sys.argv[1], 5000), timeout=float(sys.argv[2]))
end = time.monotonic() + 1
while time.monotonic() < end:
    link.send(bytes(65536))
"""
RECEIVER = """
import socket
server = socket.create_server(("", 5000))
print("ready", flush=True)
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
            self.addCleanup(self.lab.set_rate, 1, 1000)
            self.lab.set_rate(1, mbit)
            before = self.lab.received_bytes(1)
            receiver = self.lab.start([sys.executable, "-c", RECEIVER], self.folder, host=1, timeout=30)
            receiver.until("ready")
            begin = time.monotonic()
            self.output(sys.executable, "-c", SENDER, self.lab.names[1], 20)
            self.assertEqual(receiver.wait().status, 0, receiver.text())
            seconds = time.monotonic() - begin
            received = self.lab.received_bytes(1) - before
            self.assertLess(received * 8e-6 / seconds, 1.1 * mbit)
            self.assertGreater(received, 1e5)

    def test_a_cut_host_is_heard_no_more(self):
        with Lab(hosts=2) as lab:
            def answer(seconds):
                return lab.start([sys.executable, "-c", SENDER, lab.names[1], seconds], self.folder, timeout=30).wait().err

            self.assertIn("ConnectionRefusedError", answer(20))  # nobody listens there
            lab.cut(1)
            self.assertIn("timed out", answer(2))

    def test_nothing_is_left_behind_by_a_user_who_is_killed(self):
        mark = f"{time.time_ns()}"
        user = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); from lab import Lab; lab = Lab(2); "
             "run = lab.start(['sleep', '1000.' + sys.argv[2]], '/', timeout=1000); print(lab.folder, flush=True); run.wait()",
             os.path.dirname(os.path.abspath(__file__)), mark], stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(user.wait)
        self.addCleanup(user.kill)
        folder = user.stdout.readline().strip()
        self.assertTrue(os.path.isdir(folder), folder)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)

        def sleepers():
            return subprocess.run(["pgrep", "-f", f"^sleep 1000.{mark}"], check=False, capture_output=True).stdout

        end = time.monotonic() + 20
        while not sleepers() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(sleepers())
        user.send_signal(signal.SIGKILL)
        user.wait()
        user.stdout.close()
        while (sleepers() or os.path.exists(folder)) and time.monotonic() < end + 20:
            time.sleep(0.05)
        self.assertFalse(sleepers())
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    main()
