#!/usr/bin/env python3
"""Steps that a device has recorded once, and then launches as a whole, train to the same bits as steps kernel by kernel.

On a device this is the test of it within a whole program. On cores nothing is recorded: one short run each shows that
both settings are accepted.
"""

from program import DIGITS, ON_DEVICES, ProgramTest, main, sets


class StepRecording(ProgramTest):
    def test_same_bits(self):
        # 1437 images: the last batch of an epoch is smaller, and is not recorded
        settings = sets(training__epochs=3 if ON_DEVICES else 1, training__ranks_per_device=2)
        for ranks in (1, 2) if ON_DEVICES else (1,):
            for name, recording in (("gold", "auto"), ("silver", "off")):
                out = self.succeed("train", DIGITS, "--overwrite", *settings,
                                   *sets(name=name, training__step_recording=recording), ranks=ranks)
                self.assertNotIn("could not be recorded", out)
                if recording == "off":
                    self.assertNotIn("recorded once", out)
            self.assert_same_runs(f"{ranks} ranks")


if __name__ == "__main__":
    main()
