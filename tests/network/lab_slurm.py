"""A Slurm whose nodes are the hosts of a lab: one slurmd on each, the controller on the first."""

import os
import shutil
import time

from lab import CannotRun

PROGRAMS = ["munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "sinfo"]
COMMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "slurm", "common.conf")

CONFIGURATION = """ClusterName=lab
SlurmctldHost={first}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool_%n
TmpFS={folder}/tmp_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
NodeName={names} CPUs={cpus} RealMemory=1024
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class LabSlurm:
    """From start to the end of the lab; its daemons end by themselves after so many seconds. Throws CannotRun."""

    def __init__(self, lab, cpus=8, seconds=1800):
        path = os.environ["PATH"] + ":/usr/sbin"
        for program in PROGRAMS:
            if shutil.which(program, path=path) is None:
                raise CannotRun(f"there is no {program}: install munge, slurmctld, slurmd and slurm-client")
        self.lab, self.seconds = lab, seconds
        self.folder = os.path.join(lab.folder, "slurm")
        os.chmod(lab.folder, 0o755)  # munged asks for folders that others may read
        os.makedirs(os.path.join(self.folder, "state"))
        self.environment = {"PATH": path, "SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        with open(self.environment["SLURM_CONF"], "w", encoding="utf-8") as file, open(COMMON, encoding="utf-8") as common:
            file.write(common.read() + CONFIGURATION.format(folder=self.folder, first=lab.names[0],
                                                            names=",".join(lab.names), cpus=cpus))
        key, socket = (os.path.join(self.folder, name) for name in ("munge.key", "munge.socket"))
        self._do("mungekey", "--create", f"--keyfile={key}")
        self._launch(0, "munged", "--foreground", f"--key-file={key}", f"--socket={socket}",
                     *(f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "seed", "log")))
        self._wait(lambda: os.path.exists(socket), "munged")
        self._launch(0, "slurmctld", "-D")
        for host, name in enumerate(lab.names):
            for kind in ("spool", "tmp"):  # Slurm's PMIx plugin writes into the latter
                os.mkdir(os.path.join(self.folder, f"{kind}_{name}"))
            self._launch(host, "slurmd", "-D", "-N", name)
        idle = lambda: self._do("sinfo", "-h", "-N", "-o", "%T").out.split() == ["idle"] * len(lab.names)
        self._wait(idle, "the nodes")

    def _do(self, *words):
        return self.lab.start(words, self.folder, self.environment, timeout=30).wait()

    def _launch(self, host, *words):
        self.lab.start(words, self.folder, self.environment, timeout=self.seconds, host=host)

    def _wait(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"waited in vain for {what}; see {self.folder}")
            time.sleep(0.2)

    def start(self, words, ranks_per_host=1, folder=".", environment=None, timeout=120, mpi="pmi2"):
        """Starts a program on all hosts by srun."""
        ranks = ranks_per_host * len(self.lab.names)
        srun = ["srun", f"--mpi={mpi}", f"--nodes={len(self.lab.names)}", f"--ntasks={ranks}",
                f"--ntasks-per-node={ranks_per_host}", *words]
        return self.lab.start(srun, os.path.abspath(folder), {**self.environment, **(environment or {})}, timeout)
