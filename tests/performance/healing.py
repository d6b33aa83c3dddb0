#!/usr/bin/env python3
"""What killed ranks cost: the time of a job of which a random rank is killed every so many seconds, from its submission to
its end, beside that of the same job undisturbed, one after the other on a Slurm of one node (tests/slurm), or of so many
hosts that a network of 1 Gbit/s joins (tests/network). As root.

    healing.py --program build/openmp/halograd [--seconds 1800] [--every 60] [--ranks 2] [--hosts 4]
               [--checkpoint-epochs 25] [--seed 1]

`--ranks`: of each node or host.

The job trains inputs/digits.toml in steps of at least 30 ms, 4 per epoch, for at least so many seconds. MPICH's ranks spin
for messages, so that there should be a core for each. A kill comes after 0.5 to 1.5 times the interval, whatever the job
is doing, until it ends. No host is left out, however often its ranks are killed: both jobs run on as many.
"""

import argparse
import math
import os
import random
import re
import sys
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def measure(jobs, arguments, epochs, every=None):
    """Seconds, kills, restarts by the queue, and the accuracy at the end in percent."""
    chance = random.Random(arguments.seed)
    begin = time.monotonic()
    job = jobs.train(f"--nodes={max(1, arguments.hosts)}", f"--ntasks-per-node={arguments.ranks}", "--time=1-0", epochs=epochs,
                     checkpoint_steps=0, HALOGRAD_MOST_DEATHS="1000000", name="killed" if every else "straight",
                     words=["--set", f"output.checkpoint_epochs={arguments.checkpoint_epochs}", "--set", "output.print_steps=0"])
    kills, next_kill = 0, None
    running = lambda: jobs.cluster.job(job)[0]["JobState"] in ("PENDING", "RUNNING", "COMPLETING")
    while running():
        now = time.monotonic()
        if every and next_kill is not None and now >= next_kill:
            rank = jobs.kill_any(job, chance)
            kills += rank is not None
            print(f"  {now - begin:7.1f} s: " + (f"killed rank {rank}" if rank is not None else "nothing to kill"), flush=True)
        if every and (next_kill is None or now >= next_kill):
            next_kill = now + chance.uniform(0.5, 1.5) * every
        time.sleep(0.5)
    seconds = time.monotonic() - begin
    record, = jobs.ends(job)
    accuracy = re.search(r"mean model +([\d.]+) % of the test set", jobs.log(job)).group(1)
    return seconds, kills, int(record["Restarts"]), float(accuracy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--every", type=float, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--checkpoint-epochs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ.update(HALOGRAD_PROGRAM=os.path.abspath(arguments.program), HALOGRAD_SOURCE_DIR=os.path.abspath(SOURCE),
                      OMP_NUM_THREADS="1", HALOGRAD_SLURM_SECONDS=str(limit := int(10 * arguments.seconds) + 600))
    os.environ.setdefault("HALOGRAD_MPIEXEC", "mpiexec")
    sys.path += [os.path.join(SOURCE, "tests", name) for name in ("slurm", "network")]
    from killed_jobs import STEPS, KilledJobs  # pylint: disable=import-outside-toplevel
    from lab_cluster import LabCluster  # pylint: disable=import-outside-toplevel

    KilledJobs.NODES = 1
    if arguments.hosts > 0:
        KilledJobs.start_cluster = lambda: LabCluster(arguments.hosts, limit)
    KilledJobs.setUpClass()
    jobs = KilledJobs()
    try:
        jobs.setUp()
        epochs = math.ceil(arguments.seconds / (STEPS * 0.03))
        straight = measure(jobs, arguments, epochs)
        killed = measure(jobs, arguments, epochs, arguments.every)
    finally:
        jobs.doCleanups()
        KilledJobs.doClassCleanups()
    print(f"{arguments.ranks} ranks on {arguments.hosts or 'one'} host(s), {epochs} epochs, a checkpoint every {arguments.checkpoint_epochs}\n"
          "             seconds  kills  restarts by the queue  accuracy %")
    for name, (seconds, kills, restarts, accuracy) in (("undisturbed", straight), ("killed", killed)):
        print(f"{name:<11} {seconds:8.1f} {kills:6d} {restarts:22d} {accuracy:11.2f}")
    print(f"killed / undisturbed: {killed[0] / straight[0]:.3f}")


if __name__ == "__main__":
    main()
