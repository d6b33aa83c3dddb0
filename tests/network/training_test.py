#!/usr/bin/env python3
"""Training on several hosts gives what training on one gives, and its bytes go through the network."""

from lab_tests import DIGITS, PROGRAM, LabTest, main, sets


class Training(LabTest):
    HOSTS = 2

    def test_neighbours(self):
        before = self.lab.sent_bytes(0)
        result = self.lab.run([PROGRAM, "train", DIGITS, *sets(training__epochs=2)], folder=self.folder)
        self.assertEqual((result.status, result.err), (0, ""), result.out)
        sent = self.lab.sent_bytes(0) - before
        self.assertGreater(sent, 46 * 153e3)


if __name__ == "__main__":
    main()
