#!/usr/bin/env python3
"""A disk that fails, and power cuts, at some of the calls of a run."""

import errno
import os
import shlex

from disk_faults import COMPRESSED, EPOCH, FOR_GOOD, GROUPS, DiskFaultTest, disk_with_a_fault, read_notes
from heal_test import HEALING, job_on, write_commands
from program import contents, execute, launched, main, sets
from stop_test import REQUEUE


class PowerCuts(DiskFaultTest):
    def test_of_a_new_run(self):
        self.check_power_cuts(epochs=0, seed=1, stride=29, share=0.02)

    def test_of_a_run_that_is_resumed(self):
        self.check_power_cuts(epochs=1, seed=2, stride=29, share=0.02, output__keep_best=False)


class Failures(DiskFaultTest):
    def test_of_writes(self):
        self.check_failures("write", epochs=1, stride=109, first=37, most=3)
        self.check_failures("write", epochs=1, rank=1, most=1)
        self.check_failures("room", epochs=1, stride=7, most=2)

    def test_of_names(self):
        self.check_failures("sync", epochs=1, stride=7, most=3, for_good=True)
        self.check_failures("name", epochs=1, stride=11, most=2)
        self.check_failures("open", epochs=1, stride=23, most=3)

    def test_of_reads(self):
        self.check_failures("read", epochs=1, stride=97, most=3)
        self.check_failures("read", epochs=1, rank=1, first=9, most=1, for_good=True)

    def test_of_memory(self):
        self.check_failures("memory", epochs=1, stride=9001, first=29, most=2)


class MemoryOfHdf5(DiskFaultTest):
    def test_it_is_not_the_files_fault(self):
        """Where HDF5 survives it, which it does not at some calls: it crashes, or ends the process."""
        self.begin(1)
        told = 0
        for number in range(1, FOR_GOOD, 83):
            fault = {**self.disk(f"0 hdf5_memory {number} {number} {errno.ENOMEM}"), "PMI_RANK": "0"}
            result = self.run_program("inspect", "runs/silver/checkpoint.h5", environment=fault)
            if not read_notes(self.path("notes")):
                break
            self.assertNotEqual(result.status, 1, result.err)
            if result.status == REQUEUE:
                told += 1
                self.check_refused(result)
                self.check_status(result, of_disk=True)
        self.assertGreater(told, 0)


class Healing(DiskFaultTest):
    """A job starts a run again whose disk has failed, and not one whose disk its user is to mend."""

    def heal(self, fault):
        """A job whose disk fails in its first attempt."""
        self.begin(1)
        write_commands(self.write, attempt=f"""
            unset "${{!SLURM_@}}" # MPICH's launcher would ask Slurm
            [[ ! -e fault ]] || . ./fault
            rm -f fault
            {shlex.join(launched(self.train, 2))}""")
        disk = {name: value for name, value in self.disk(fault).items() if name != "HALOGRAD_JOB_NOTES"}
        self.write("fault", "".join(f"export {name}='{value}'\n" for name, value in disk.items()))
        return execute(HEALING, self.folder, {**job_on(2, self.folder), "SLURM_JOB_NODELIST": "a,b"})

    def test_a_disk_that_fails_once(self):
        for rank, number in ((0, 40), (1, 1)):  # HDF5's write, and MPI's
            job = self.heal(f"{rank} write {number} {number} {errno.EIO}")
            self.assertEqual(job.status, 0, job)
            self.assertRegex(job.err, r"halograd: (?s:.)*runs/silver/(?s:.)*Input/output error")
            self.assertRegex(job.out, rf"rank {rank} on \S+ died; the launcher ended with status {REQUEUE}\n"
                                      rf"job 7: attempt 2 of 3 from step {EPOCH}: ")
            self.assert_same_runs(job)

    def test_a_full_disk(self):
        for rank, number in ((0, 40), (1, 1)):
            job = self.heal(f"{rank} write {number} {number} {errno.ENOSPC}")
            self.assertEqual(job.status, 1, job)
            self.assertIn("halograd's own error (above), which would come again\n", job.err)


class UnreadableCheckpoints(DiskFaultTest):
    """The disk fails for good where the newest checkpoint is, and nowhere else."""

    def test_the_one_before_is_taken(self):
        before, newest = (f"checkpoints/step_{steps:08d}.h5" for steps in (4, 2 * EPOCH))
        for rank, call, error in ((0, "read", errno.EIO), (1, "open", errno.ESTALE)):
            self.begin(2)
            whole = contents(self.silver)
            fault = disk_with_a_fault(os.path.join(self.silver, newest), "/dev/null", f"{rank} {call} 1 {FOR_GOOD} {error}")
            out = self.succeed(*self.train, *sets(output__keep=1, output__keep_best=False), ranks=2, environment=fault)
            self.assertRegex(out, rf"Skipped a checkpoint that cannot be read: runs/silver/{newest}: .*{os.strerror(error)}")
            self.assertIn(f"Resumed from runs/silver/{before}: ", out)
            self.assert_same_runs(f"without the newest checkpoint, which rank {rank} cannot {call}")
            self.assertEqual(contents(self.silver)[newest + ".unreadable"], whole[newest])
            self.go_on("the run is done")

    def test_there_is_no_other(self):
        self.begin(1)
        only = f"runs/silver/checkpoints/step_{EPOCH:08d}.h5"
        before = contents(self.silver)
        fault = disk_with_a_fault(self.path(only), "/dev/null", f"1 read 1 {FOR_GOOD} {errno.EIO}")
        result = self.run_program(*self.train, ranks=2, environment={**self.disk(), **fault})
        self.check_refused(result, f"{only}: ", "Input/output error")
        self.check_status(result, of_disk=True)
        with open(self.path("job_notes"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"died 1 \S+\n$")
        self.assertEqual(contents(self.silver), before)


class Quota(DiskFaultTest):
    def test_the_message_names_it(self):
        for call, first in (("write", 40), ("room", 3), ("sync", 4)):
            self.check_failures(call, epochs=1, first=first, most=1, for_good=True, error=errno.EDQUOT,
                                says=["Disk quota exceeded"])


class LateFiles(DiskFaultTest):
    """What another process has made is seen late, as on NFS."""

    def resumed(self, fault):
        result = self.run_program(*self.train, ranks=2, environment=self.disk(fault))
        self.assertNotIn("damaged", " ".join([result.out, *contents(self.silver)]))
        return result

    def test_a_checkpoint_that_is_not_seen_is_not_damaged(self):
        self.begin(1)
        before = contents(self.silver)
        for rank, first, error in ((0, 6, errno.ESTALE), (1, 1, errno.ENOENT), (1, 2, errno.ESTALE)):
            result = self.resumed(f"{rank} see {first} {FOR_GOOD} {error}")
            self.check_refused(result, "checkpoints/step_00000003.h5", os.strerror(error))
            self.assertEqual(before, contents(self.silver))
        self.go_on("after files were seen late")

    def test_the_newest_checkpoint_is_missing_in_the_list(self):
        self.begin(1)
        result = self.resumed(f"0 list 3 {FOR_GOOD} 0")
        self.assertIn("Resumed from runs/silver/checkpoints/step_00000003.h5", result.out)
        self.assertEqual(result.status, 0, result.err)
        self.assert_same_runs("after a list that was old")


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
        self.check_failures("write", epochs=1, stride=149, first=37, most=2)
        self.check_failures("sync", epochs=1, most=1)


if __name__ == "__main__":
    main()
