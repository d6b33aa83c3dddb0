#!/usr/bin/env python3
"""jobscripts/plot_metrics.py on runs of the program."""

import os
import sys

import h5py

from program import FILES, SOURCE, SYNTHETIC, PreparedTest, contents, drawing, execute, main, sets

SCRIPT = os.path.join(SOURCE, "jobscripts", "plot_metrics.py")


class Plot(PreparedTest):
    def prepare(self):
        self.succeed("train", SYNTHETIC, ranks=2)

    def plot(self, *arguments):
        return execute([sys.executable, SCRIPT, *arguments], self.folder, drawing())

    def check_picture(self, path):
        with open(self.path(path), "rb") as file:
            picture = file.read()
        self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(picture[-8:-4], b"IEND")
        self.assertGreater(len(picture), 10_000)
        width, height = (int.from_bytes(picture[at:at + 4], "big") for at in (16, 20))
        self.assertGreater(min(width, height), 600)

    def test_a_picture_of_a_run(self):
        result = self.plot("runs/synthetic")
        self.assertEqual((result.status, result.err, result.out), (0, "", "runs/synthetic/metrics.png\n"))
        self.check_picture("runs/synthetic/metrics.png")
        self.assertEqual(sorted(os.listdir(self.path("runs/synthetic"))),
                         sorted([*FILES, "metrics.png"]))

    def test_runs_side_by_side(self):
        self.succeed("train", SYNTHETIC, *sets(name="alone", averager__name="allreduce", training__epochs=1))
        result = self.plot("runs/synthetic", "runs/alone/metrics.h5", "--output", "both.png")
        self.assertEqual((result.status, result.err, result.out), (0, "", "both.png\n"))
        self.check_picture("both.png")

        self.assertEqual(self.plot("runs/synthetic", "runs/alone", "--against", "seconds").status, 0)
        result = self.plot("runs/synthetic", "runs/alone", "--table")
        self.assertEqual((result.status, result.err), (0, ""))
        head, *rows = [line.split() for line in result.out.splitlines()]
        self.assertEqual((head[0], [row[0] for row in rows]), ("run", ["synthetic", "alone"]))
        with h5py.File(self.path("runs/alone/metrics.h5"), "r") as file:
            accuracy, steps = 100 * file["epoch/mean_model_accuracy"][-1], int(file["epoch/steps"][-1])
        self.assertEqual(rows[1][1:4], ["1", "1", str(steps)])
        self.assertIn(f"{accuracy:.2f}", rows[1])

    def test_waiting_between_steps_is_waiting(self):
        def wait_per_cent():
            result = self.plot("runs/synthetic", "--table")
            self.assertEqual((result.status, result.err), (0, ""))
            head, row = result.out.splitlines()
            return float(row[:head.index("wait %") + len("wait %")].split()[-1])

        with h5py.File(self.path("runs/synthetic/metrics.h5"), "r+") as file:
            kinds = [file[f"step/{kind}_seconds"][()].sum() for kind in ("wait", "data", "compute", "update")]
            file["step/wait_seconds"][...] = 0
            file["epoch/wait_seconds"][...] = 0
            epochs = file["epoch/steps"].shape[0]
        self.assertEqual(wait_per_cent(), 0)
        with h5py.File(self.path("runs/synthetic/metrics.h5"), "r+") as file:
            file["epoch/wait_seconds"][...] = 3 * sum(kinds) / epochs
        self.assertGreater(wait_per_cent(), 70)

    def test_a_run_that_went_on_on_fewer_ranks(self):
        self.succeed("train", SYNTHETIC, "--resume", *sets(training__epochs=3), ranks=1)
        result = self.plot("runs/synthetic", "--table")
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertNotIn("nan", result.out)
        with h5py.File(self.path("runs/synthetic/metrics.h5"), "r") as file:
            self.assertIn(f"{file['epoch/train_loss'][-1, 0]:.4f}", result.out)
        result = self.plot("runs/synthetic")
        self.assertEqual((result.status, result.err), (0, ""))

    def test_refusals(self):
        before = contents(self.path("runs"))
        self.write("words.h5", "no HDF5\n")
        with h5py.File(self.path("empty.h5"), "w"):
            pass
        with open(self.path("runs/synthetic/metrics.h5"), "rb") as whole, open(self.path("cut.h5"), "wb") as cut:
            cut.write(whole.read()[:3000])
        for path, words in (("runs/nowhere", ["no such file"]), ("words.h5", ["not an HDF5 file"]),
                            ("runs/synthetic/checkpoint.h5", ["halograd checkpoint", "halograd metrics"]),
                            ("empty.h5", ["'format'", "halograd metrics"]), ("cut.h5", ["cannot be read"])):
            result = self.plot(path)
            self.assertNotEqual(result.status, 0, path)
            self.assertEqual(result.err.count("\n"), 1, result.err)  # a sentence, no traceback
            for word in ["plot_metrics: ", path, *words]:
                self.assertIn(word, result.err)
        result = self.plot("runs/synthetic", "--output", "nowhere/picture.png")
        self.assertNotEqual(result.status, 0)
        self.assertRegex(result.err, r"^plot_metrics: .*nowhere/picture\.png.*\n$")
        self.assertEqual(contents(self.path("runs")), before)


if __name__ == "__main__":
    main()
