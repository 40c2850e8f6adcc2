# SPDX-License-Identifier: BSD-3-Clause
"""Two hosts on one machine: network namespaces that are connected, UTS and time namespaces, and an agent in place of ssh. Where the clock of
one is to be another machine's, a preloaded library skews it."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import polter_run as p

HOSTS = ("polter-a", "polter-b")
AHEAD_NS = 5_000_000_000_000  # what the second one's time namespace adds
SKEW = p.BUILD / "test" / "programs" / "libskewed-clock.so"

AGENT = """#!/bin/sh
# mpirun's in place of ssh: [options] HOST COMMAND…
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in *.1|*-a) net={a}; name=polter-a; ahead=0 ;; *) net={b}; name=polter-b; ahead={ahead} ;; esac
shift
exec ip netns exec $net unshare --uts --time --monotonic $ahead --fork sh -c 'hostname "$0"; eval "$@"' $name "$@"
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
    def __init__(self, folder, net):
        self.folder, self.net = folder, net
        self.agent = folder / "agent"
        self.agent.write_text(AGENT.replace("{a}", net[0]).replace("{b}", net[1]).replace("{ahead}", str(AHEAD_NS // 10**9)))
        self.agent.chmod(0o755)

    def job(self, flavour, program, *arguments):
        """One rank on each host; mpirun runs on the first."""
        if flavour == "openmpi":
            return ["mpirun.openmpi", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.231.7.0/24",
                    "--mca", "oob_tcp_if_include", "10.231.7.0/24", "--bind-to", "none", "-H", "10.231.7.1,10.231.7.2", "-n", "2", program, *arguments]
        return ["mpirun.mpich", "-launcher", "rsh", "-launcher-exec", self.agent, "-hosts", "10.231.7.1,10.231.7.2", "-n", "2", "-ppn", "1", program,
                *arguments]

    def on_first(self, words):
        script = f"hostname {HOSTS[0]}; exec \"$@\""
        return ["ip", "netns", "exec", self.net[0], "unshare", "--uts", "sh", "-c", script, "sh", *[str(w) for w in words]]


@contextlib.contextmanager
def hosts():
    net = [f"polter-{os.getpid()}-{name}" for name in "ab"]
    link = [f"plt{os.getpid()}{name}"[:15] for name in "ab"]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="polter-hosts-"))
    try:
        for name in net:
            sh("ip", "netns", "add", name)
        sh("ip", "link", "add", link[0], "netns", net[0], "type", "veth", "peer", "name", link[1], "netns", net[1])
        for i, name in enumerate(net):
            sh("ip", "-n", name, "addr", "add", f"10.231.7.{i + 1}/24", "dev", link[i])
            sh("ip", "-n", name, "link", "set", link[i], "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
        until = time.monotonic() + 10
        while not all(" UP " in sh("ip", "-n", net[i], "-br", "link", "show", "dev", link[i]) for i in (0, 1)) and time.monotonic() < until:
            time.sleep(0.02)
        sh("ip", "netns", "exec", net[1], "unshare", "--uts", "--time", "--monotonic", "5", "--fork", "true")
        yield Hosts(folder, net)
    finally:
        for name in net:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


ENVIRONMENT = {"UCX_TLS": "tcp,self"}


def skewed(began_ns, offset_ns, rate_ppm, step_ns=0, at_ns=0):
    """The environment in which the second host's clock is skewed (test/tracer/clocks/skewed_clock.c)."""
    return {"LD_PRELOAD": str(SKEW), "SKEWED_CLOCK": f"{HOSTS[1]} {began_ns} {offset_ns} {rate_ppm} {step_ns} {at_ns}"}
