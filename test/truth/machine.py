# SPDX-License-Identifier: BSD-3-Clause
"""The simulated machine: platform and host files for SimGrid, and one run of the truth program on them."""

import json
import os
import pathlib
import signal
import subprocess


class Failed(Exception):
    """A run that did not give a result: what, and the last lines of what it said."""


def platform(description, ranks):
    """The platform file for `description` (an entry of "machines" in cases.json) with one host for each rank."""
    extra = ""
    if "topology" in description:
        extra = f' topology="{description["topology"]}" topo_parameters="{description["topo_parameters"]}"'
    if "backbone" in description:
        extra += f' bb_bw="{description["backbone"]}" bb_lat="{description["latency"]}"'
    hosts = description.get("hosts", ranks)
    return (
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'<cluster id="cluster" prefix="n" suffix="" radical="0-{hosts - 1}" speed="1Gf"'
        f' bw="{description["bandwidth"]}" lat="{description["latency"]}"{extra}/>\n'
        "</platform>\n"
    )


class SimulatorFailed(Failed):
    """SMPI could not run the program."""


def run_with_children(command, timeout):
    """As subprocess.run(), but a timeout ends also what the command started: smpirun is a script, and the simulation its child."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            raise SimulatorFailed(f"no end after {timeout} s: {' '.join(command)}") from error
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


class Machine:
    def __init__(self, description, ranks, folder, smpirun, program, timeout=600):
        self.description, self.ranks, self.smpirun, self.program, self.timeout = description, ranks, smpirun, program, timeout
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.platform, self.hosts = folder / "platform.xml", folder / "hosts"
        self.platform.write_text(platform(description, ranks))
        self.hosts.write_text("".join(f"n{i}\n" for i in range(ranks)))

    def run(self, arguments):
        """Runs the program; gives what it printed: runtime_ns, events, noise_ns of each rank. smpirun splits arguments at blanks."""
        eager = self.description.get("eager_limit", 65536)
        settings = {
            "smpi/simulate-computation": "no",  # computing is given in nanoseconds, not measured here
            "smpi/privatization": "no",  # one set of globals: one process writes the trace of all ranks
            "surf/precision": "1e-10",
            "smpi/test": "0",  # time passes by the recorder's own cost of a call, which noise can prolong
            "smpi/iprobe": "1e-7",  # how often SMPI's MPI_Probe looks, which would never end without
            "smpi/grow-injected-times": "no",  # … and does not look less and less often
            # Below it a send ends at once and the message is under way before its receive is posted, as in real MPIs.
            "smpi/async-small-thresh": eager,
            "smpi/send-is-detached-thresh": eager,
            "smpi/finalization-barrier": "1",
            "smpi/coll-selector": self.description.get("collectives", "mpich"),
        }
        settings |= {f"smpi/{operation}": algorithm for operation, algorithm in self.description.get("algorithms", {}).items()}
        command = [self.smpirun, "-np", str(self.ranks), "-platform", str(self.platform), "-hostfile", str(self.hosts)]
        command += ["--log=root.thresh:warning"] + [f"--cfg={key}:{value}" for key, value in settings.items()]
        command += [str(self.program)] + [str(argument) for argument in arguments]
        done = run_with_children(command, self.timeout)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or len(lines) != 1:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
            raise SimulatorFailed(f"exit code {done.returncode}: {' '.join(command)}\n{said}")
        return json.loads(lines[0])
