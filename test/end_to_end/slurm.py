#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slurm with two nodes on this machine: real controller, node daemons and authentication, all in a folder of their own. Each node has a host
name and a folder of its own for what PMIx keeps; both share the kernel."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

NODES = ("slurm-a", "slurm-b")


def missing():
    """Why there can be no such bed here; None where there can."""
    if os.geteuid() != 0:
        return "the node daemons of Slurm need root"
    lacks = [program for program in ("slurmctld", "slurmd", "srun", "munged", "unshare") if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]
    return f"not installed: {', '.join(lacks)}" if lacks else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bed:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = {}
        self.environment = {}

    def start(self):
        for name in ("state", "pmix", *(f"spool-{n}" for n in NODES), *(f"pmix-{n}" for n in NODES)):
            (self.folder / name).mkdir()
        self._authentication()
        ports = [free_port() for _ in range(3)]
        nodes = "\n".join(f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2" for name, port in zip(NODES, ports))
        (self.folder / "slurm.conf").write_text(f"""ClusterName=polter
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmctldPort={ports[2]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
OverTimeLimit=0
KillWait=2
ReturnToService=2
{nodes}
PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
        (self.folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.folder}/pmix\n")
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\nIgnoreSystemd=yes\n")
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
        self._spawn("slurmctld", ["slurmctld", "-D", "-f", self.folder / "slurm.conf"])
        for name in NODES:
            script = f'hostname {name}; mount --bind {self.folder}/pmix-{name} {self.folder}/pmix; exec slurmd -D -N {name} -f {self.folder}/slurm.conf'
            self._spawn(name, ["unshare", "--uts", "--mount", "bash", "-c", script])
        for _ in range(200):
            said = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], check=False).stdout.split()
            if said[1::2] == ["idle", "idle"]:
                return self
            time.sleep(0.1)
        raise RuntimeError(f"the nodes do not come up: {said}\n" + "\n".join(f"{f.name}: {f.read_text()[-1500:]}" for f in self.folder.glob("*.log")))

    def _authentication(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._spawn("munged", ["munged", "-F", "-f", f"--key-file={key}", f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                               f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed"])
        for _ in range(100):
            if (self.folder / "munge.socket").exists():
                return
            time.sleep(0.05)
        raise RuntimeError("munged does not come up: " + (self.folder / "munged.log").read_text())

    def _spawn(self, name, words):
        with (self.folder / f"{name}.out").open("w") as out:
            self.processes[name] = subprocess.Popen([str(w) for w in words], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=out,
                                                    stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, words, check=True, limit=120, environment=None, **more):
        return subprocess.run([str(w) for w in words], env={**os.environ, **self.environment, **(environment or {})}, capture_output=True, text=True,
                              check=check, timeout=limit, **more)

    def stop(self):
        self.run(["scancel", "--state=RUNNING", "--quiet", "-u", "root"], check=False)
        for name in reversed(list(self.processes)):
            process = self.processes[name]
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
