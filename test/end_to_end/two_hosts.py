# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts on one machine: network namespaces that are connected, UTS and time namespaces, and an agent in place of ssh. Where the clock of
one is to be another machine's, a preloaded library skews it. Where the hosts are to share no file system, the second has a /tmp of its own."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import polter_run as p

HOSTS = ("polter-a", "polter-b")
ADDRESSES = ("10.231.7.1", "10.231.7.2")
AHEAD_NS = 5_000_000_000_000  # what the second one's time namespace adds
SKEW = p.BUILD / "test" / "programs" / "libskewed-clock.so"

AGENT = """#!/bin/sh
# mpirun's in place of ssh: [options] HOST COMMAND…
test ! -e {folder}/closed || { echo "no route to host" >&2; exit 255; }
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in *.1|*-a) net={a}; name=polter-a; ahead=0; own= ;; *) net={b}; name=polter-b; ahead={ahead}; own={own} ;; esac
shift
exec ip netns exec $net unshare --uts --time --mount --monotonic $ahead --fork sh -c '
    hostname "$0"; test -z "$1" || mount --bind "$1" /tmp; shift; eval "$@"' $name "$own" "$@"
"""


def missing():
    """Why there can be no two hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root"
    for command in ("ip", "unshare"):
        if not shutil.which(command):
            return f"no command {command}"
    try:
        with hosts():
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no namespaces can be made here: {error}"


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=20).stdout


class Hosts:
    def __init__(self, folder, net, shared=True):
        """`shared` false: the second host sees the first one's /tmp as little as the other way round."""
        self.folder, self.net = folder, net
        self.tmp = None if shared else folder / "tmp"  # the second host's /tmp
        if self.tmp:
            self.tmp.mkdir(mode=0o1777)
        self.agent = folder / "agent"
        text = AGENT
        for name, value in {"a": net[0], "b": net[1], "ahead": AHEAD_NS // 10**9, "own": self.tmp or "", "folder": folder}.items():
            text = text.replace("{" + name + "}", str(value))
        self.agent.write_text(text)
        self.agent.chmod(0o755)

    def launcher(self, flavour):
        """Without hosts and program; it runs on the first one."""
        if flavour == "openmpi":
            return ["mpirun.openmpi", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.231.7.0/24",
                    "--mca", "oob_tcp_if_include", "10.231.7.0/24", "--bind-to", "none", "--map-by", "node", "--oversubscribe"]
        return ["mpirun.mpich", "-launcher", "rsh", "-launcher-exec", self.agent]

    def job(self, flavour, program, *arguments, ranks=2):
        """Ranks by turns on both hosts."""
        hosts = ["-H" if flavour == "openmpi" else "-hosts", ",".join(ADDRESSES)]
        by_turns = [] if flavour == "openmpi" else ["-ppn", "1"]
        return [*self.launcher(flavour), *hosts, "-n", str(ranks), *by_turns, program, *arguments]

    def job_by_file(self, flavour, program, *arguments):
        file = self.folder / "hostfile"
        file.write_text("".join(f"{address} slots=1\n" if flavour == "openmpi" else f"{address}:1\n" for address in ADDRESSES))
        return [*self.launcher(flavour), "-hostfile" if flavour == "openmpi" else "-f", file, "-n", "2", program, *arguments]

    def job_of_two(self, flavour, first, second):
        """A program on each host, each with its arguments."""
        if flavour == "openmpi":
            return [*self.launcher(flavour), "-H", ADDRESSES[0], "-n", "1", *first, ":", "-H", ADDRESSES[1], "-n", "1", *second]
        return [*self.launcher(flavour), "-hosts", ",".join(f"{address}:1" for address in ADDRESSES), "-n", "1", *first, ":", "-n", "1", *second]

    def close(self):
        """The agent reaches no host any more."""
        (self.folder / "closed").touch()

    def in_finalize(self):
        """All ranks that run are within the MPI library's MPI_Finalize, as far as can be seen: the tracer has nothing left to do."""
        ranks = [pid for pid in processes(self.net) if os.readlink(f"/proc/{pid}/exe").startswith(str(p.PROGRAMS))]
        if not shutil.which("gdb"):
            return False  # not known
        stacks = [subprocess.run(["gdb", "-p", pid, "-batch", "-ex", "bt"], capture_output=True, text=True, check=False, timeout=60).stdout
                  for pid in ranks]
        return bool(ranks) and all("PMPI_Finalize" in stack for stack in stacks)

    def on_first(self, words):
        script = f"hostname {HOSTS[0]}; exec \"$@\""
        return ["ip", "netns", "exec", self.net[0], "unshare", "--uts", "sh", "-c", script, "sh", *[str(w) for w in words]]


def processes(net):
    """Of both hosts, each as a string."""
    return [pid for name in net for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False, timeout=20)
            .stdout.split()]


@contextlib.contextmanager
def hosts(shared=True):
    net = [f"polter-{os.getpid()}-{name}" for name in "ab"]
    link = [f"plt{os.getpid()}{name}"[:15] for name in "ab"]
    # Launchers look for their agent on the second host too.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="polter-hosts-", dir=None if shared else p.BUILD))
    try:
        for name in net:
            sh("ip", "netns", "add", name)
        sh("ip", "link", "add", link[0], "netns", net[0], "type", "veth", "peer", "name", link[1], "netns", net[1])
        for i, name in enumerate(net):
            sh("ip", "-n", name, "addr", "add", f"{ADDRESSES[i]}/24", "dev", link[i])
            sh("ip", "-n", name, "link", "set", link[i], "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
        until = time.monotonic() + 10
        while not all(" UP " in sh("ip", "-n", net[i], "-br", "link", "show", "dev", link[i]) for i in (0, 1)) and time.monotonic() < until:
            time.sleep(0.02)
        sh("ip", "netns", "exec", net[1], "unshare", "--uts", "--time", "--monotonic", "5", "--fork", "true")
        yield Hosts(folder, net, shared)
    finally:
        for pid in processes(net):  # of a job that hung
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for name in net:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


ENVIRONMENT = {"UCX_TLS": "tcp,self"}


def skewed(began_ns, offset_ns, rate_ppm, step_ns=0, at_ns=0):
    """The environment in which the second host's clock is skewed (test/tracer/clocks/skewed_clock.c)."""
    return {"LD_PRELOAD": str(SKEW), "SKEWED_CLOCK": f"{HOSTS[1]} {began_ns} {offset_ns} {rate_ppm} {step_ns} {at_ns}"}


def main(flavours):
    """The tests of a file, or why they cannot run here."""
    why = missing()
    if not flavours:
        why = "no MPI launcher that is tested here"
    elif not shutil.which("otf2-print"):
        why = "no otf2-print (Debian package otf2-tools)"
    if why:
        print("SKIP: " + why)
        sys.exit(77)
    unittest.main(verbosity=2)
