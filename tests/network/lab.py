"""A cluster on this machine, for the tests beside this file and for scripts of tests/performance.

    with Lab(hosts=4, rate_mbit=1000) as lab:
        result = lab.run([program, "train", run_file], ranks_per_host=2)
        print(result.status, lab.sent_bytes(0))

Each host is a network namespace with a host name, a /dev/shm and one interface of its own, whose rate is limited in both
directions. A bridge in a further namespace joins them. All processes of the cluster lie in a process namespace, which the
kernel ends with everything in it when its first process ends; that one ends with its standard input, and so with the
program that uses this module, however that ends; the cluster's folder goes with it. Nothing is left behind.

Needs root, iproute2 and util-linux; CannotRun says what is missing.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

TOOLS = ["unshare", "nsenter", "ip", "tc"]
# UCX looks for memory that ranks share in other places than /dev/shm and the host's name, and finds it between hosts. Open
# MPI does not know that hosts share cores.
NETWORK = {"UCX_TLS": "tcp,self", "OMPI_MCA_mpi_yield_when_idle": "1"}
GRACE = 10  # seconds for a launcher whose time is over to end its ranks

# The first process of the cluster. It says its number while /proc is still the machine's. Nobody would wait for processes
# whose parents have ended: the kernel does for a first process that ignores SIGCHLD.
FIRST_PROCESS = """
read -r number rest </proc/self/stat
trap '' CHLD
mount -t proc proc /proc
mkdir -p /run/netns
mount -t tmpfs netns /run/netns
mount --bind "$1" /etc/hosts
mount --rbind /sys/fs/cgroup /mnt
echo "$number"
exec cat
"""
# Runs a command, and then removes the folder that it worked in.
IN_FOLDER = 'folder=$1; shift; "$@"; exec rm -rf "$folder"'
# In a host's network namespace, with a new /sys: gives a command the rest of what makes a host.
AS_HOST = 'hostname "$0" && mount -t tmpfs shm /dev/shm && mount --rbind /mnt /sys/fs/cgroup && exec "$@"'
# Takes the place of ssh for a launcher: skips options, takes the host, and runs the rest there.
REMOTE_SHELL = f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c '{AS_HOST}' "$host" sh -c "exec $*"
"""

Result = collections.namedtuple("Result", "status out err seconds")
# An MPI: the words by which its launcher starts so many ranks on each of these hosts of a lab, and its environment.
Mpi = collections.namedtuple("Mpi", "launcher environment")


def hydra(mpiexec="mpiexec.mpich", environment=None):
    """MPICH's launcher."""
    def launcher(lab, hosts, ranks_per_host):
        return [mpiexec, "-localhost", hosts[0], "-launcher", "ssh", "-launcher-exec", lab.remote_shell,
                "-hosts", ",".join(hosts), "-ppn", str(ranks_per_host), "-n", str(ranks_per_host * len(hosts))]
    return Mpi(launcher, environment or {})


def mpich_below(prefix, netmod):
    """Another MPICH than the one that the program was linked with; they share an ABI. `netmod`: ucx or ofi."""
    return hydra(os.path.join(prefix, "bin", "mpiexec"), {
        "LD_LIBRARY_PATH": os.path.join(prefix, "lib"), "MPIR_CVAR_CH4_NETMOD": netmod, "FI_PROVIDER": "tcp"})


def open_mpi():
    def launcher(lab, hosts, ranks_per_host):
        return ["mpiexec.openmpi", "--mca", "plm_rsh_agent", lab.remote_shell, "--mca", "oob_tcp_if_include", "eth0",
                "--host", ",".join(f"{host}:{ranks_per_host}" for host in hosts), "-n", str(ranks_per_host * len(hosts))]
    return Mpi(launcher, {})


class CannotRun(Exception):
    """This machine cannot have such a cluster; the text says why."""


class Run:
    """A command on the cluster, and its output so far: each line with the seconds after which it came."""

    def __init__(self, command, environment):
        self.begin = time.monotonic()
        self.out, self.err = [], []
        self.process = subprocess.Popen(
            command, env={**os.environ, **NETWORK, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, lines):
        with stream:
            for line in stream:
                lines.append((self.seconds(), line))

    def seconds(self):
        return time.monotonic() - self.begin

    def when(self, pattern):
        """When the last line came that matches; None: there is none so far."""
        return max((seconds for seconds, line in [*self.out, *self.err] if re.search(pattern, line)), default=None)

    def until(self, pattern, timeout=60):
        """Waits for a line that matches, until the run has taken so many seconds."""
        while self.when(pattern) is None:
            if self.process.poll() is not None or self.seconds() > timeout:
                raise AssertionError(f"no line '{pattern}' within {self.seconds():.0f} s\n{self.text()}")
            time.sleep(0.05)

    def wait(self):
        """Waits for the end, which the cluster has bounded in time. Status 124 or 137: its time was over."""
        status = self.process.wait()
        end = self.seconds()
        for reader in self.readers:
            reader.join(GRACE)
        return Result(status, *("".join(line for _, line in list(lines)) for lines in (self.out, self.err)), end)

    def text(self):
        """All output with its times, for messages."""
        return "".join(f"{seconds:7.2f} s {line}" for seconds, line in sorted([*self.out, *self.err]))


class Lab:
    """Hosts host1, host2, ... with addresses 10.77.0.1 and following; they are numbered from 0 here.

    `rate_mbit`: Mbit/s of each host's interface, in each direction. `delay_ms`: by which what a host sends comes later;
    takes a kernel with netem. Throws CannotRun."""

    def __init__(self, hosts, rate_mbit=1000, delay_ms=0, mpi=hydra()):
        if os.geteuid() != 0:
            raise CannotRun("network namespaces need root")
        for tool in TOOLS:
            if shutil.which(tool) is None:
                raise CannotRun(f"there is no {tool}: install iproute2 and util-linux")
        self.names = [f"host{host + 1}" for host in range(hosts)]
        self.addresses = [f"10.77.0.{host + 1}" for host in range(hosts)]
        self.folder = tempfile.mkdtemp(prefix="halograd_lab_")
        self.first, self.runs, self.mpi = None, [], mpi
        try:
            self._start_first_process()
            self._inside("ip", "link", "add", "bridge", "type", "bridge")
            self._inside("ip", "link", "set", "bridge", "up")
            for host in range(hosts):
                self._add_host(host)
                self.set_rate(host, rate_mbit)
                if delay_ms > 0:
                    self._inside("tc", "-n", self.names[host], "qdisc", "add", "dev", "eth0", "parent", "1:",
                                 "netem", "delay", f"{delay_ms}ms")
        except RuntimeError as reason:  # a kernel without bridges, rates or delays
            self.close()
            raise CannotRun(str(reason)) from reason
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends all processes of the cluster, and the cluster."""
        if self.first is not None:
            self.first.stdin.close()
            self.first.wait(60)
            self.first.stdout.close()
        for run in self.runs:
            run.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def _start_first_process(self):
        hosts = self._write("hosts", "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for address, name in zip(self.addresses, self.names)))
        self.remote_shell = self._write("remote_shell.sh", REMOTE_SHELL)
        self.first = subprocess.Popen(
            ["sh", "-c", IN_FOLDER, "sh", self.folder, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
             "sh", "-ec", FIRST_PROCESS, "sh", hosts],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        self.number = self.first.stdout.readline().strip()
        if not self.number.isdigit():
            raise CannotRun(f"namespaces are not allowed here: {self.number}")

    def _add_host(self, host):
        name = self.names[host]
        self._inside("ip", "netns", "add", name)
        self._inside("ip", "link", "add", f"port{host + 1}", "type", "veth", "peer", "name", "eth0", "netns", name)
        self._inside("ip", "link", "set", f"port{host + 1}", "master", "bridge", "up")
        self._inside("ip", "-n", name, "address", "add", f"{self.addresses[host]}/24", "dev", "eth0")
        self._inside("ip", "-n", name, "link", "set", "eth0", "up")
        self._inside("ip", "-n", name, "link", "set", "lo", "up")
        # Linux's own default, whatever this machine uses. A namespace may not choose an algorithm, a route may.
        self._inside("ip", "-n", name, "route", "change", "10.77.0.0/24", "dev", "eth0", "proto", "kernel", "scope", "link",
                     "src", self.addresses[host], "congctl", "cubic")

    def _entering(self, *words):
        return ["nsenter", "--target", self.number, "--mount", "--net", "--pid", *words]

    def _inside(self, *words):
        """Runs a command among the cluster's processes, beside the bridge; its standard output."""
        done = subprocess.run(self._entering(*words), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                              timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def set_rate(self, host, mbit):
        """Limits the host's interface to `mbit` Mbit/s in each direction, from now on."""
        # Bytes: 2 ms, and no less than the 68.5 kB of the largest segment. One that waits when the rate is lowered would never
        # be sent through a smaller bucket, nor anything behind it.
        burst = max(72_000, int(mbit * 1e6 / 8 * 0.002))
        # Bytes: a switch passes on frames, the lab whole segments of TCP. Those of new connections take 1 ms or so of the link.
        largest = min(65_536, max(12_000, int(mbit * 1e6 / 8 * 0.001)))
        self._inside("ip", "-n", self.names[host], "link", "set", "dev", "eth0", "gso_max_size", str(largest))
        limit = ["root", "handle", "1:", "tbf", "rate", f"{mbit}mbit", "burst", str(burst), "latency", "200ms"]
        self._inside("tc", "-n", self.names[host], "qdisc", "replace", "dev", "eth0", *limit)
        self._inside("tc", "qdisc", "replace", "dev", f"port{host + 1}", *limit)

    def cut(self, host):
        """Pulls the host's cable: what is sent to it or by it is lost, and nobody is told."""
        self._inside("ip", "link", "set", f"port{host + 1}", "down")

    def _counter(self, host, direction):
        text = self._inside("ip", "-n", self.names[host], "-json", "-statistics", "link", "show", "eth0")
        return json.loads(text)[0]["stats64"][direction]["bytes"]

    def sent_bytes(self, host):
        """Bytes that the host has sent so far, with all headers."""
        return self._counter(host, "tx")

    def received_bytes(self, host):
        return self._counter(host, "rx")

    def on_host(self, host, *words):
        """The command line that runs a command on one host."""
        name = self.names[host]
        return self._entering("ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", AS_HOST, name, *words)

    def launched(self, words, ranks_per_host=1, hosts=None):
        """The command line by which the MPI's launcher starts a program on the first `hosts` hosts, or on all; it is for the
        first one."""
        return [*self.mpi.launcher(self, self.names[:hosts], ranks_per_host), *words]

    def start(self, words, folder, environment=None, timeout=120, host=0):
        """Starts a command on a host, in a folder; it has ended after so many seconds."""
        bounded = ["timeout", f"--kill-after={GRACE}", str(timeout), "env", f"--chdir={folder}", *map(str, words)]
        self.runs.append(Run(self.on_host(host, *bounded), {**self.mpi.environment, **(environment or {})}))
        return self.runs[-1]

    def run(self, words, ranks_per_host=1, folder=".", environment=None, timeout=120, hosts=None):
        """Runs a program by the MPI's launcher; what it leaves running has ended, too, when this returns."""
        result = self.start(self.launched(words, ranks_per_host, hosts), os.path.abspath(folder), environment,
                            timeout).wait()
        self.end_all()
        return result

    def end_all(self):
        """Ends whatever still runs on the hosts."""
        subprocess.run(self._entering("sh", "-c", "kill -KILL -1"), check=False, capture_output=True, timeout=60)
