#!/usr/bin/env python3
"""single_node.sh: starts and stops what it should, and only that."""

import os
import subprocess
import unittest

from cluster import SCRIPT, Cluster, execute, main


def lives(process):
    """Also no zombie: where nobody reaps orphans, their numbers stay."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read() != b""
    except OSError:
        return False


class SingleNode(unittest.TestCase):
    def ask(self, word, folder):
        return execute(["bash", SCRIPT, word, folder], "/")

    def test_from_start_to_stop(self):
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        result = self.ask("status", cluster.folder)
        self.assertEqual(result.status, 0, result.out + result.err)
        processes = [int(line.split()[-1]) for line in result.out.splitlines() if ": process " in line]
        self.assertEqual(len(processes), 4)
        again = self.ask("start", cluster.folder)
        self.assertEqual(again.status, 1)
        self.assertIn("runs already", again.err)
        # a process of somebody else under a number that the cluster had: not ended by stop
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        job = cluster.command("sbatch", "--parsable", "--wrap", "sleep 300").strip()
        cluster.wait(job, lambda records: records[0]["JobState"] == "RUNNING")
        pidfile = os.path.join(cluster.folder, "run", "munged.pid")
        with open(pidfile, "w", encoding="utf-8") as file:
            file.write(f"{other.pid}\n")
        self.assertEqual(self.ask("stop", cluster.folder).status, 0)
        self.assertIsNone(other.poll())
        munged = processes.pop(0)
        for process in processes:
            self.assertFalse(lives(process), process)
        with open(pidfile, "w", encoding="utf-8") as file:
            file.write(f"{munged}\n")
        self.assertEqual(self.ask("stop", cluster.folder).status, 0)
        self.assertFalse(lives(munged))
        self.assertEqual(self.ask("status", cluster.folder).status, 3)
        with open(os.path.join(cluster.folder, "log", "slurmctld.log"), encoding="utf-8") as file:
            self.assertIn(f"REQUEST_KILL_JOB JobId={job} ", file.read())

    def test_wrong_words(self):
        for words in (["begin", "/tmp/x"], ["start"], ["start", "relative"], ["start", "/tmp/a b"], []):
            result = execute(["bash", SCRIPT, *words], "/")
            self.assertEqual(result.status, 2, words)
            self.assertRegex(result.err, "^single_node: ")


if __name__ == "__main__":
    main()
