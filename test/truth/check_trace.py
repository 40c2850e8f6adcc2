#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the recorder itself, for every pattern of the bench: what the traces say against each other and against what really hit.

An independent reader (otf2-print) shows the archives. Checked: order of time on each location; Enter and Leave balance; each send has
its receive, each request its end; ranks agree on their collectives; noise lies in its place without overlap and adds up to what hit;
both forms of a trace hold the same events; a quiet run has no noise. Exit code: 0 all well, 1 not, 77 cannot run here.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import random_program
from machine import Failed, Machine

HERE = pathlib.Path(__file__).resolve().parent
LINE = re.compile(r"^([A-Z_]+) +(\d+) +(\d+)  ?(.*)$")
NOISE = [
    "timer:periodic:period=300000,duration=10000",
    "preempt:heavy_tailed:period=1000000,duration=150000,culprit=a_culprit",
]


def fields(text):
    found = dict(re.findall(r"(\w+): (-?\w+)", text))
    comm = re.search(r'Communicator: "[^"]*" <(\d+)>', text)
    return found | ({"Communicator": comm.group(1)} if comm else {})


def window(text):
    return re.search(r'Window: "[^"]*" <(\d+)>', text).group(1)


def matching(text):
    return "matching " + re.search(r"Matching: (\d+)", text).group(1)


def read(archive):
    """Events as (kind, location, time, text), attributes appended to the text."""
    done = subprocess.run(["otf2-print", str(archive)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0 or done.stderr.strip():
        raise Failed(f"otf2-print {archive}: exit code {done.returncode} {done.stderr.strip()}")
    events = []
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if match:
            events.append([match.group(1), int(match.group(2)), int(match.group(3)), match.group(4)])
        elif "ADDITIONAL ATTRIBUTES" in line:
            events[-1][3] += " " + line.strip()
    return events


class Checker:
    def __init__(self, archive, detailed):
        self.events, self.detailed = read(archive), detailed
        self.clock = collections.defaultdict(int)
        self.first = None  # time of the first event
        self.inside = collections.defaultdict(lambda: None)  # (region, time of Enter), by location
        self.sent, self.received = collections.Counter(), collections.Counter()
        self.requests = collections.defaultdict(set)
        self.found = {}  # location → source and tag of what a probe found and has not been received yet
        self.collectives = collections.defaultdict(lambda: collections.defaultdict(list))
        self.noise = collections.defaultdict(dict)  # location → metric → value
        self.noise_end = collections.defaultdict(int)
        self.mpi = collections.defaultdict(list)  # all but metrics

    def fail(self, event, why):
        raise Failed(f"{why}: {event}")

    def run(self):
        for event in self.events:
            kind, where, time, text = event
            if time < self.clock[where]:
                self.fail(event, "time runs backward")
            self.clock[where] = time
            self.first = time if self.first is None else min(self.first, time)
            if kind != "METRIC":
                self.mpi[where].append((kind, time, text))
            getattr(self, "on_" + kind.lower(), self.unknown)(event, where, time, text)
        for where, open_call in self.inside.items():
            if open_call is not None:
                self.fail(open_call, f"location {where} never leaves")
        if self.sent != self.received:
            raise Failed(f"unmatched messages: {(self.sent - self.received) + (self.received - self.sent)}")
        for where, left in self.requests.items():
            if left:
                raise Failed(f"location {where}: requests without an end: {left}")
        for comm, by_rank in self.collectives.items():
            if len({tuple(operations) for operations in by_rank.values()}) != 1:
                raise Failed(f"the ranks of communicator {comm} disagree on its collectives")
        return self

    def unknown(self, event, *_):
        self.fail(event, "a record that the bench does not write")

    def on_enter(self, event, where, time, text):
        if self.inside[where] is not None:
            self.fail(event, "calls nest")
        self.inside[where] = (text, time)

    def on_leave(self, event, where, time, text):
        call, _, attributes = text.partition(" ADDITIONAL ATTRIBUTES")
        if self.inside[where] is None or self.inside[where][0] != call:
            self.fail(event, "leaves what was not entered")
        self.inside[where] = None
        if ("MPI_Probe" in call) != bool(attributes) and "MPI_Iprobe" not in call:
            self.fail(event, "a probe has to say what it found, and no other call")
        if attributes:
            found = dict(re.findall(r'"polter:(source|tag|any)" <\d+>; U?INT\d+; (\d+)', attributes))
            asked = {"any"} if "MPI_Probe" in call else set()  # the bench's MPI_Iprobe names its source and tag
            if found.keys() != {"source", "tag"} | asked or "polter:comm" not in attributes:
                self.fail(event, "does not say what was found, and how it was asked for")
            self.found[where] = (found["source"], found["tag"])

    def on_metric(self, event, where, time, text):
        metric, value = re.search(r'Value: \("([^"]+)" <\d+>; UINT64; (\d+)\)', text).groups()
        before = self.noise[where].get(metric)
        self.noise[where][metric] = int(value)
        if before is None:
            if int(value) != 0 or self.mpi[where]:
                self.fail(event, "the baseline does not stand at the beginning")
            return
        stolen = int(value) - before
        if stolen <= 0:
            self.fail(event, "a record although the counter has not moved forward")
        if self.detailed:
            if time - stolen < self.noise_end[where]:
                self.fail(event, "noise events overlap")
            self.noise_end[where] = time
            if metric == "os:preempt" and "a_culprit" not in text:
                self.fail(event, "the culprit is missing")

    def in_call(self, event, where, time, at_enter):
        if self.inside[where] is None:
            self.fail(event, "outside a call")
        if at_enter and time != self.inside[where][1]:
            self.fail(event, "not at Enter's time")

    def message(self, event, where, time, text, sending):
        self.in_call(event, where, time, sending)
        f = fields(text)
        pair = (where, int(f["Receiver"])) if sending else (int(f["Sender"]), where)
        if not sending and self.found.pop(where, (f["Sender"], f["Tag"])) != (f["Sender"], f["Tag"]):
            self.fail(event, "receives another message than its probe found")
        (self.sent if sending else self.received)[(*pair, f["Communicator"], f["Tag"], f["Length"])] += 1

    def on_mpi_send(self, event, *rest):
        self.message(event, *rest, sending=True)

    def on_mpi_recv(self, event, *rest):
        self.message(event, *rest, sending=False)

    def request(self, event, where, time, text, opens):
        self.in_call(event, where, time, opens)
        number = fields(text)["Request"]
        if opens == (number in self.requests[where]):
            self.fail(event, "a request that is open already" if opens else "a request that is not open")
        (self.requests[where].add if opens else self.requests[where].discard)(number)

    def on_mpi_isend(self, event, *rest):
        self.message(event, *rest, sending=True)
        self.request(event, *rest, opens=True)

    def on_mpi_irecv_request(self, event, where, time, text):
        self.request(event, where, time, text, opens=True)
        if not all(name in text for name in ("polter:source", "polter:tag", "polter:comm")):
            self.fail(event, "does not say what was posted")

    def on_mpi_irecv(self, event, *rest):
        self.message(event, *rest, sending=False)
        self.request(event, *rest, opens=False)

    def on_mpi_isend_complete(self, event, *rest):
        self.request(event, *rest, opens=False)

    def on_mpi_request_test(self, event, where, time, text):
        self.in_call(event, where, time, False)
        if fields(text)["Request"] not in self.requests[where]:
            self.fail(event, "tests a request that is not open")

    def on_mpi_collective_begin(self, event, where, time, text):
        self.in_call(event, where, time, True)

    def on_mpi_collective_end(self, event, where, time, text):
        self.in_call(event, where, time, False)
        f = fields(text)
        self.collectives[f["Communicator"]][where].append((f["Operation"], f["Root"]))

    def on_non_blocking_collective_request(self, event, where, time, text):
        self.request(event, where, time, text, opens=True)
        if "polter:comm" not in text:
            self.fail(event, "does not say its communicator")

    def on_non_blocking_collective_complete(self, event, where, time, text):
        self.request(event, where, time, text, opens=False)
        f = fields(text)
        self.collectives[f["Communicator"]][where].append((f["Operation"], f["Root"]))

    def on_rma_collective_begin(self, event, where, time, text):
        self.in_call(event, where, time, True)

    def on_rma_collective_end(self, event, where, time, text):
        self.in_call(event, where, time, False)
        self.collectives["window " + window(text)][where].append(fields(text)["Operation"])

    def on_rma_win_create(self, event, where, time, text):
        self.in_call(event, where, time, False)

    on_rma_win_destroy = on_rma_win_create

    def on_rma_sync(self, event, where, time, text):
        sending = "NOTIFY_OUT" in text
        self.in_call(event, where, time, sending)
        call = self.inside[where][0]
        remote = int(fields(text)["Remote"])
        # A start asks for the post that the complete takes: the same notice.
        if "MPI_Win_start" not in call:
            pair = (where, remote) if sending else (remote, where)
            of_post = "MPI_Win_post" in call or ("MPI_Win_complete" in call and not sending)
            (self.sent if sending else self.received)[(*pair, "window " + window(text), of_post)] += 1

    def on_rma_put(self, event, where, time, text):
        self.in_call(event, where, time, True)
        self.requests[where].add(matching(text))

    on_rma_get = on_rma_put

    def on_rma_request_lock(self, event, where, time, text):
        self.in_call(event, where, time, True)
        self.requests[where].add("lock " + window(text) + " " + fields(text)["Remote"])

    def on_rma_acquire_lock(self, event, where, time, text):
        self.in_call(event, where, time, False)

    def on_rma_release_lock(self, event, where, time, text):
        self.in_call(event, where, time, False)
        self.requests[where].remove("lock " + window(text) + " " + fields(text)["Remote"])

    def on_rma_op_complete_remote(self, event, where, time, text):
        self.in_call(event, where, time, False)
        if matching(text) not in self.requests[where]:
            self.fail(event, "completes what was not begun")
        self.requests[where].discard(matching(text))

    on_rma_op_complete_non_blocking = on_rma_op_complete_remote

    def stolen(self):
        return [sum(self.noise[where].values()) for where in sorted(self.noise)]


def program_of_all_kinds(folder):
    """Each kind of phase of the random programs, as the arguments of the truth program."""
    draw = random.Random(1)
    case = {"ranks": 8, "heavy": False, "machine": {"eager_limit": 65536}}
    phases = [random_program.draw_phase(draw, kind, number, case) for number, kind in enumerate(random_program.KINDS)]
    for phase in phases:
        if phase["kind"] not in random_program.COLLECTIVES + random_program.NONBLOCKING:
            phase["groups"] = 1  # messages are compared by ranks of the world
    folder.mkdir(parents=True)
    (folder / "program.txt").write_text(random_program.program_text({"blocks": [{"repeat": 3, "phases": phases}]}))
    return ["--program", folder / "program.txt"]


def check(arguments, options, folder):
    description = json.loads((HERE / "cases.json").read_text())["machines"]["cluster"]
    machine = Machine(description, options.ranks, folder, options.smpirun, options.program)
    arguments = arguments + ["--seed", options.seed] + [text for source in NOISE for text in ("--noise", source)]
    noisy = machine.run(arguments + ["--detailed", folder / "events", "--counters", folder / "counters"])
    quiet = machine.run(arguments + ["--quiet", "--detailed", folder / "quiet"])
    events = Checker(folder / "events" / "traces.otf2", True).run()
    counters = Checker(folder / "counters" / "traces.otf2", False).run()
    still = Checker(folder / "quiet" / "traces.otf2", True).run()
    if events.mpi != counters.mpi:
        raise Failed("the two forms of the trace differ in more than noise")
    for trace, truth in ((events, noisy), (counters, noisy), (still, quiet)):
        if trace.stolen() != truth["noise_ns"]:
            raise Failed(f"recorded noise {trace.stolen()}, injected {truth['noise_ns']}")
        span = max(trace.clock.values()) - trace.first
        if span != truth["runtime_ns"]:
            raise Failed(f"the trace spans {span} ns, the run took {truth['runtime_ns']} ns")
    if not any(events.stolen()) or any(still.stolen()):
        raise Failed("noise where there is none, or none where there is")
    return len(events.events)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=HERE.parent.parent / "build/test/truth/truth_program")
    parser.add_argument("--smpirun", default=shutil.which("smpirun"))
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(argv)
    options.program = options.program.resolve()
    for tool, package in ((options.smpirun, "libsimgrid-dev"), (shutil.which("otf2-print"), "otf2-tools")):
        if not tool:
            print(f"SKIP: {package} is not installed (scripts/setup installs it)")
            return 77
    patterns = dict.fromkeys(group["pattern"] for group in json.loads((HERE / "cases.json").read_text())["groups"])
    bad = 0
    with tempfile.TemporaryDirectory(prefix="truth-check-") as temporary:
        runs = {pattern: ["--pattern", pattern, "--iterations", 5, "--bytes", 1000] for pattern in patterns}
        runs["random"] = program_of_all_kinds(pathlib.Path(temporary) / "program")
        for pattern, arguments in runs.items():
            try:
                print(f"{pattern}: {check(arguments, options, pathlib.Path(temporary) / pattern)} records")
            except Failed as error:
                bad += 1
                print(f"{pattern}: FAILED: {error}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
