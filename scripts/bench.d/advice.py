# SPDX-License-Identifier: BSD-3-Clause
"""Is the advice true? For each set-up: run disturbed, ask polter advise, carry the suggestion out, run again, in turn. The measured gain
(difference of medians) is compared with what was predicted.

The jobs run at nice -10, so that other load of the machine, which is not part of the set-up, weighs little."""

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import POLTER, at_least_two, show

SPINNER = "polter_hog"  # the name that the trace must show
NICE = ["nice", "-n", "-10"]
CGROUP_V1, CGROUP_V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
PERIOD_US, QUOTA_US = 20000, 30000  # for two ranks: 1.5 CPUs
INPUT = Path(__file__).resolve().parents[1] / "melt.in"


def job(ranks: int, steps: int, cpus: str) -> list[str]:
    return ["taskset", "-c", cpus, *NICE, "mpirun.openmpi", "--bind-to", "none", "--oversubscribe", "-n", str(ranks),
            "lmp", "-in", str(INPUT), "-log", "none", "-screen", "none", "-var", "steps", str(steps)]


@contextlib.contextmanager
def spinner(folder: Path, cpu: str, idle: bool):
    program = folder / SPINNER
    if not program.exists():
        shutil.copy(shutil.which("sh"), program)
    start = ["chrt", "-i", "0"] if idle else NICE
    process = subprocess.Popen(["taskset", "-c", cpu, *start, str(program), "-c", "while :; do :; done"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def quota(limited: bool):
    """This process and its children in a cgroup of their own; both arms have one, so only the quota differs."""
    v2 = (CGROUP_V2 / "cgroup.controllers").exists()
    group = (CGROUP_V2 if v2 else CGROUP_V1) / "polter-bench-advice"
    home = (CGROUP_V2 if v2 else CGROUP_V1) / "cgroup.procs"
    group.mkdir(exist_ok=True)
    try:
        if v2:
            (group / "cpu.max").write_text(f"{QUOTA_US if limited else 'max'} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US if limited else -1))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        home.write_text(str(os.getpid()))
        group.rmdir()


class Case:
    """`disturbed` and `mended` run the job; `kind`, `about`: the suggestion that must be made."""

    def __init__(self, kind, about, disturbed, mended, needs=lambda: ""):
        self.kind, self.about, self.disturbed, self.mended, self.needs = kind, about, disturbed, mended, needs


def traced(folder: Path, command: list[str], number: int) -> Path:
    experiment = folder / f"run-{number}"
    done = subprocess.run([str(POLTER), "run", "-q", "-o", str(experiment), "--", *command], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, POLTER_REPLAY_LIMIT="0"))
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return experiment


def advice(experiment: Path) -> dict:
    done = subprocess.run([str(POLTER), "advise", "--json", str(experiment)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"bench: polter advise: {done.stderr}")
    return json.loads(done.stdout)


def measured_ns(experiment: Path) -> int:
    done = subprocess.run([str(POLTER), "replay", "--json", str(experiment)], capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout)["measured_ns"]


def interval(before: list[int], after: list[int], seed: int) -> list[int]:
    """95 % of the differences of medians of resampled runs."""
    draw = random.Random(seed)
    differences = sorted(statistics.median(draw.choices(before, k=len(before))) - statistics.median(draw.choices(after, k=len(after)))
                         for _ in range(2000))
    return [int(differences[50]), int(differences[1949])]


def examine(case: Case, folder: Path, pairs: int, seed: int) -> dict:
    if missing := case.needs():
        return {"not_measured": missing}
    before, after, low, value, high, named, top = [], [], [], [], [], 0, 0
    for pair in range(pairs):
        for disturbed in ((True, False) if pair % 2 == 0 else (False, True)):  # in turn, so that a drift of the machine hits both
            experiment = (case.disturbed if disturbed else case.mended)(folder, 2 * pair + disturbed)
            if disturbed:
                said = advice(experiment)
                before.append(said["measured_ns"])
                found = [one for one in said["suggestions"] if one["kind"] == case.kind and case.about in json.dumps(one)]
                if found:
                    named += 1
                    top += said["suggestions"][0] in found
                    value.append(found[0]["saves"]["value"])
                    low.append(found[0]["saves"]["interval"][0])
                    high.append(found[0]["saves"]["interval"][1])
            else:
                after.append(measured_ns(experiment))
            shutil.rmtree(experiment, ignore_errors=True)
    gain = int(statistics.median(before) - statistics.median(after))
    result = {"pairs": pairs, "suggested_in": named, "first_suggestion_in": top, "kind": case.kind,
              "run_ns": {"before": before, "after": after}, "measured_gain": {"value": gain, "unit": "ns", "interval": interval(before, after, seed)}}
    if value:
        predicted = {"value": int(statistics.median(value)), "unit": "ns", "interval": [int(statistics.median(low)), int(statistics.median(high))]}
        result["predicted_gain"] = predicted
        result["gain_inside_prediction"] = predicted["interval"][0] <= gain <= predicted["interval"][1]
        result["intervals_overlap"] = (result["measured_gain"]["interval"][0] <= predicted["interval"][1]
                                       and predicted["interval"][0] <= result["measured_gain"]["interval"][1])
        result["error_percent_of_gain"] = round(100 * (predicted["value"] - gain) / gain, 2) if gain else None
        result["error_percent_of_run"] = round(100 * (predicted["value"] - gain) / statistics.median(before), 2)
    return result


def cases(steps: int) -> dict[str, Case]:
    def with_spinner(cpu, idle, ranks, cpus):
        def run(folder, number):
            with spinner(folder, cpu, idle):
                return traced(folder, job(ranks, steps, cpus), number)
        return run

    def with_quota(limited):
        def run(folder, number):
            with quota(limited):
                return traced(folder, job(2, steps, "0,1"), number)
        return run

    def root():
        return "" if os.geteuid() == 0 else "needs root"

    def two_cpus():
        return root() or ("" if len(os.sched_getaffinity(0)) > 1 else "needs two CPUs")

    def quota_possible():
        group = CGROUP_V1 if (CGROUP_V1 / "cpu.cfs_quota_us").exists() or (CGROUP_V1 / "cgroup.procs").exists() else CGROUP_V2
        return root() or ("" if os.access(group / "cgroup.procs", os.W_OK) else f"{group}/cgroup.procs cannot be written")

    return {
        "competitor_moved_away": Case("process", SPINNER, with_spinner("0", False, 1, "0"), with_spinner("1", False, 1, "0"), two_cpus),
        "competitor_lower_priority": Case("process", SPINNER, with_spinner("0", False, 2, "0,1"), with_spinner("0", True, 2, "0,1"), two_cpus),
        "quota_removed": Case("cpu_quota", "", with_quota(True), with_quota(False), quota_possible),
        "ranks_given_own_cpus": Case("own_cpu", "", lambda f, n: traced(f, job(2, steps, "0"), n), lambda f, n: traced(f, job(2, steps, "0,1"), n), two_cpus),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=at_least_two, default=7, help="runs disturbed and mended, in turn")
    parser.add_argument("--steps", type=int, default=300, help="of LAMMPS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one set-up: " + ", ".join(cases(1)))
    options = parser.parse_args()
    if not shutil.which("lmp"):
        sys.exit("bench: needs lmp (Debian: lammps)")
    results = {}
    for name, case in cases(options.steps).items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="polter-advice-") as folder:
                results[name] = examine(case, Path(folder), options.pairs, options.seed)
    show({"schema": "polter.bench.advice/1", "seed": options.seed, "set_ups": results})


if __name__ == "__main__":
    main()
