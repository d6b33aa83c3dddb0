#!/usr/bin/env python3
"""What jobscripts/heal.sh decides after each kind of end, with commands in the place of Slurm's that do as they are told.
tests/slurm/healing_test.py has real ones, local_copies_test.py a real training."""

import os
import shutil
import signal
import tempfile
import unittest

from program import SOURCE, execute, main

HEAL = os.path.join(SOURCE, "jobscripts", "heal.sh")
# Each attempt takes the next line of `ends`: its status, then what halograd notes, separated by commas. After "time" Slurm
# ends the job.
ATTEMPT = r"""
echo "${SLURM_NTASKS-} ranks on ${SLURM_JOB_NODELIST}${SLURM_HOSTFILE:+ $(tr '\n' ' ' <"$SLURM_HOSTFILE")}" >>ran
IFS=, read -r -a words < ends
sed -i 1d ends
for ((i = 1; i < ${#words[@]}; ++i)); do
  if [[ ${words[i]} != time ]]; then echo "${words[i]}" >>"$HALOGRAD_JOB_NOTES"; continue; fi
  kill -TERM $PPID
  until [[ -s calls || ! -e /proc/$PPID/exe ]]; do sleep 0.05; done
done
exit "${words[0]}"
"""
SCONTROL = r"""
case "$1 $2" in
  "show hostnames") tr , '\n' <<<"$3" ;;
  "show job") echo "JobId=7 ReqNodeList=$(cat required) ExcNodeList=$(cat excluded) Reason=$(cat reason) Requeue=1" ;;
  *) echo "$*" >>calls ;;
esac
"""
COMMANDS = {
    "attempt": ATTEMPT, "scontrol": SCONTROL, "squeue": 'echo "$*" >>asked; cat allocation', "sinfo": "tr , '\\n' <partition",
    "srun": '[[ " $* " =~ \\ --nodelist=([a-z]+)\\  ]] && ! grep -qx "${BASH_REMATCH[1]}" silent'}
HEALING = ["bash", "-c", f"set -euo pipefail\n. {HEAL}\nheal attempt"]


def write_commands(write, **others):
    """Them and what they read, in a folder that `write` (name, text) writes to; others take the place of those of their names."""
    for name, text in (COMMANDS | others).items():
        os.chmod(write(name, "#!/usr/bin/env bash\n" + text), 0o755)
    for name, text in {"allocation": "a,b", "partition": "a,b", "required": "(null)", "excluded": "(null)", "silent": "", "reason": "None"}.items():
        write(name, text + "\n")


def job_on(nodes, folder, starts=1):
    """The environment of a job of two ranks per node, for commands of this folder."""
    return {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(starts - 1),
            "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NTASKS": str(2 * nodes), "SLURM_NTASKS_PER_NODE": "2",
            "SLURM_JOB_PARTITION": "main"}


class Heal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="halograd_heal_")
        self.addCleanup(shutil.rmtree, self.folder)
        write_commands(self.write)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def heal(self, *ends, starts=1, nodes=2, **variables):
        """One start of a job of two ranks per node: its status, what it says, where its attempts ran, what it asked of Slurm."""
        self.write("ends", "".join(f"{end}\n" for end in ends))
        for name in ("ran", "calls"):
            self.write(name, "")
        environment = {**job_on(nodes, self.folder, starts), "SLURM_JOB_NODELIST": self.read("allocation").strip(), **variables}
        result = execute(HEALING, self.folder, environment)
        self.assertEqual(self.read("ends"), "", result.out + result.err)
        return result.status, result.out + result.err, self.read("ran").splitlines(), self.read("calls").splitlines()

    def check_over(self):
        """Nothing is left in the folder."""
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])

    def test_done(self):
        self.assertEqual(self.heal("0,checkpoint 5"), (0, "", ["4 ranks on a,b"], []))
        self.check_over()

    def test_saved_for_later(self):
        for starts in range(1, 6):  # without any progress, for nothing has failed
            status, said, _, calls = self.heal("75", starts=starts)
            self.assertEqual((status, said, calls),
                             (75, "job 7: saved for later, back into the queue\n", ["requeue 7"]))
        self.assertEqual(self.heal("0", starts=6)[:2], (0, ""))
        self.check_over()

    def test_the_time_limit(self):
        self.write("reason", "TimeLimit\n")
        for starts in range(1, 4):
            status, said, ran, calls = self.heal("137,running,time", starts=starts)
            self.assertEqual((status, len(ran), calls), (75, 1, ["requeue 7"]))
            self.assertTrue(said.endswith("job 7: its time is over, back into the queue\n"), said)
        status, said, ran, calls = self.heal(starts=4)
        self.assertEqual((status, ran, calls), (1, [], []))
        self.assertIn("3 attempts from step 0 have failed: HALOGRAD_MOST_ATTEMPTS is 3", said)
        self.check_over()

    def test_the_time_limit_after_progress(self):
        self.write("reason", "TimeLimit\n")
        for starts in range(1, 6):
            status, _, _, calls = self.heal(f"137,running,checkpoint {starts},time", starts=starts)
            self.assertEqual((status, calls), (75, ["requeue 7"]))
        for starts in range(6, 10):  # the ranks save before Slurm kills them
            status, _, _, calls = self.heal("75,running,time", starts=starts)
            self.assertEqual((status, calls), (75, ["requeue 7"]))
        status, said, _, calls = self.heal("75,running,time", starts=10, HALOGRAD_MOST_STARTS="10")
        self.assertEqual((status, calls), (1, []))
        self.assertIn("HALOGRAD_MOST_STARTS is 10", said)

    def test_a_job_that_is_cancelled(self):
        status, said, _, calls = self.heal("75,running,time")
        self.assertEqual((status, said, calls), (-signal.SIGTERM, "", []))

    def test_an_array_is_not_queued_again_as_a_whole(self):
        _, _, _, calls = self.heal("75", SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="2")
        self.assertEqual(calls, ["requeue 5_2"])
        self.assertIn("--jobs=5_2 ", self.read("asked"))  # and its nodes are not those of all

    def test_not_for_ever(self):
        status, said, _, calls = self.heal("75", starts=3, HALOGRAD_MOST_STARTS="3")
        self.assertEqual((status, calls), (1, []))
        self.assertIn("HALOGRAD_MOST_STARTS is 3", said)
        self.check_over()

    def test_errors_of_the_user(self):
        # on all ranks; on one, whose end the others then notice
        for end, wanted in (("1,error", 1), ("137,error,died 1 b", 137), ("75,checkpoint 5,error,died 1 b", 75)):
            status, said, ran, calls = self.heal(end)
            self.assertEqual((status, len(ran), calls), (wanted, 1, []), end)
            self.assertIn("halograd's own error (above)", said)
            self.check_over()

    def test_an_error_that_follows_a_death(self):
        status, _, ran, calls = self.heal("75,died 1 b,error", "0")
        self.assertEqual((status, len(ran), calls), (0, 2, []))

    def test_a_death(self):
        status, said, ran, calls = self.heal("137,checkpoint 40,died 3 b,died 3 b", "0")
        self.assertEqual((status, ran, calls), (0, ["4 ranks on a,b"] * 2, []))
        self.assertEqual(said, "job 7: rank 3 on b died; the launcher ended with status 137\n"
                               "job 7: attempt 2 of 3 from step 40: 4 ranks on 2 of 2 nodes\n")
        self.check_over()

    def test_an_end_without_a_word(self):
        status, said, ran, _ = self.heal("1", "0")
        self.assertEqual((status, len(ran)), (0, 2))
        self.assertIn("no rank is known to have died; the launcher ended with status 1\n", said)

    def test_a_launcher_that_forgets_what_happened(self):
        """mpiexec of MPICH 4.2 may end with 0 though ranks were killed."""
        status, said, ran, _ = self.heal("0,running,checkpoint 4", "0,running,finished")
        self.assertEqual((status, len(ran)), (0, 2))
        self.assertIn("no rank is known to have died; the launcher ended with status 0\n", said)
        self.heal(*["0,running"] * 2)
        self.assertEqual(self.heal("0,running", starts=2)[0], 1)
        self.check_over()

    def test_attempts_without_progress(self):
        status, said, ran, calls = self.heal("9,checkpoint 40", "9,checkpoint 40")
        self.assertEqual((status, len(ran), calls), (75, 2, ["requeue 7"]))
        self.assertIn("failed twice from step 40, back into the queue", said)
        status, said, ran, calls = self.heal("9,checkpoint 40", starts=2)
        self.assertEqual((status, len(ran), calls), (9, 1, []))
        self.assertIn("attempt 3 of 3 from step 40", said)
        self.assertIn("3 attempts from step 40 have failed: HALOGRAD_MOST_ATTEMPTS is 3", said)
        self.check_over()

    def test_progress_gives_new_attempts(self):
        ends = [f"137,checkpoint {step}" for step in range(1, 20)]
        status, said, ran, calls = self.heal(*ends, "0")
        self.assertEqual((status, len(ran), calls), (0, 20, []))
        self.assertIn("attempt 2 of 3 from step 19", said)
        self.assertNotIn("attempt 3", said)

    def test_a_start_that_was_cut_short_counts(self):
        """Its own node went down, and Slurm has queued it again."""
        self.write(".halograd-job-7", "start\ncheckpoint 4\nfailed\nstart\n")
        status, said, _, _ = self.heal("9", starts=2)
        self.assertEqual(status, 9)
        self.assertIn("attempt 3 of 3 from step 4", said)
        self.write(".halograd-job-7", "start\ncheckpoint 4\n" + "failed\nstart\n" * 2)
        status, said, ran, calls = self.heal(starts=4)
        self.assertEqual((status, ran, calls), (1, [], []))
        self.assertIn("3 attempts from step 4 have failed: HALOGRAD_MOST_ATTEMPTS is 3", said)
        self.check_over()

    def test_a_node_that_failed_twice(self):
        ends = ["137,checkpoint 1,died 2 b,died 3 b", "137,checkpoint 2,died 2 b", "0,checkpoint 3"]
        status, said, ran, _ = self.heal(*ends)
        self.assertEqual((status, ran), (0, ["4 ranks on a,b"] * 2 + ["2 ranks on a a a "]))
        self.assertIn("rank 2 on b, rank 3 on b died", said)
        self.assertIn("attempt 2 of 3 from step 2: 2 ranks on 1 of 2 nodes\n", said)

    def test_a_node_that_may_fail_more_often(self):
        ends = [f"137,checkpoint {step},died 2 b" for step in range(1, 4)]
        _, _, ran, _ = self.heal(*ends, "0", HALOGRAD_MOST_DEATHS="3")
        self.assertEqual(ran, ["4 ranks on a,b"] * 3 + ["2 ranks on a a a "])
        self.write("silent", "b\n")
        self.assertEqual(self.heal(ends[0], "0", HALOGRAD_MOST_DEATHS="3")[2][1], "2 ranks on a a a ")

    def test_a_refusal_after_failures_is_not_the_users(self):
        """The ranks that are left may be too few for the run file: the queue may give all of them again."""
        status, said, ran, calls = self.heal("137,checkpoint 1,died 2 b", "137,checkpoint 2,died 2 b", "1,error")
        self.assertEqual((status, ran[2:], calls), (75, ["2 ranks on a a a "], ["requeue 7"]))
        self.assertIn("failed twice from step 2, back into the queue", said)

    def test_the_queue_is_asked_for_other_nodes(self):
        self.write("partition", "a,b,c\n")
        status, said, _, calls = self.heal("137,checkpoint 1,died 2 b", "137,checkpoint 2,died 2 b", "75,checkpoint 3")
        self.assertEqual((status, calls), (75, ["requeue 7", "update JobId=7 ExcNodeList=b"]))
        self.assertIn("not on b again\n", said)
        self.write("allocation", "a,c\n")
        self.write("excluded", "b,x\n")  # x by the user
        _, _, ran, calls = self.heal("75", starts=2)
        self.assertEqual((ran, calls), (["4 ranks on a,c"], ["requeue 7", "update JobId=7 ExcNodeList=b,b,x"]))

    def test_too_few_other_nodes(self):
        """The partition has no more; or the user does not want them, or wants those that the job has."""
        for partition, excluded, required in (("a,b", "(null)", "(null)"), ("a,b,c", "c,x", "(null)"),
                                              ("a,b,c", "(null)", "a,b")):
            for name, text in {"partition": partition, "excluded": excluded, "required": required}.items():
                self.write(name, text + "\n")
            _, _, _, calls = self.heal("137,checkpoint 1,died 2 b", "137,checkpoint 2,died 2 b", "75,checkpoint 3")
            self.assertEqual(calls, ["requeue 7"], partition + excluded + required)
            self.assertEqual(self.heal("0", starts=2)[2], ["4 ranks on a,b"])

    def test_every_node_has_failed_twice(self):
        ends = [f"137,checkpoint {step},died 0 a,died 2 b" for step in range(1, 6)]
        status, said, ran, _ = self.heal(*ends, "0")
        self.assertEqual((status, ran), (0, ["4 ranks on a,b"] * 6))
        self.assertEqual(said.count("failed too often, but the partition has too few other nodes"), 2)
        self.write("partition", "a,b,c,d\n")
        status, said, ran, calls = self.heal(*ends[:2])
        self.assertEqual((status, len(ran), calls[0]), (75, 2, "requeue 7"))
        self.assertRegex(calls[1], "^update JobId=7 ExcNodeList=(a,b|b,a)$")
        self.assertIn("no node is left, back into the queue", said)

    def test_a_node_that_does_not_answer(self):
        self.write("silent", "b\n")
        status, said, ran, _ = self.heal("75,checkpoint 1,died 2 b", "0")
        self.assertEqual((status, ran[1]), (0, "2 ranks on a a a "))
        self.assertIn("job 7: b does not answer\n", said)

    def test_a_node_that_has_left_the_job(self):
        self.write("allocation", "a\n")
        _, _, ran, _ = self.heal("0")
        self.assertEqual(ran, ["2 ranks on a a a "])

    def test_spare_nodes(self):
        self.write("allocation", "a,b,c\n")
        ends = ["137,checkpoint 1,died 2 b", "137,checkpoint 2,died 2 b", "0,checkpoint 3"]
        status, said, ran, _ = self.heal(*ends, nodes=3, HALOGRAD_SPARE_NODES="1")
        self.assertEqual((status, ran), (0, ["4 ranks on a,b a a b b "] * 2 + ["4 ranks on a,c a a c c "]))
        self.assertIn("attempt 1 of 3 from step 0: 4 ranks on 2 of 3 nodes\n", said)

    def test_no_node_but_spare_ones(self):
        status, said, ran, calls = self.heal(HALOGRAD_SPARE_NODES="2")
        self.assertEqual((status, ran, calls), (1, [], []))
        self.assertIn("HALOGRAD_SPARE_NODES is 2, but the job has 2 nodes", said)
        self.check_over()

    def test_failures_are_counted_across_starts(self):
        self.write("partition", "a,b,c\n")
        self.heal("137,checkpoint 1,died 2 b", "75,checkpoint 2")
        status, _, ran, calls = self.heal("137,checkpoint 3,died 2 b", "75,checkpoint 4", starts=2)
        self.assertEqual((status, ran[1], calls[1]), (75, "2 ranks on a a a ", "update JobId=7 ExcNodeList=b"))

    def test_a_heterogeneous_job_keeps_its_shape(self):
        self.write("partition", "a,b,c\n")
        self.write("silent", "b\n")  # srun asks the first component alone
        status, _, ran, calls = self.heal("137,checkpoint 1,died 2 b", "137,checkpoint 2,died 2 b", "75", SLURM_HET_SIZE="2",
                                         HALOGRAD_SPARE_NODES="1")
        self.assertEqual((status, ran, calls), (75, ["4 ranks on a,b"] * 3, ["requeue 7"]))


if __name__ == "__main__":
    main()
