# SPDX-License-Identifier: BSD-3-Clause
"""Is the advice true? For each set-up: run disturbed, ask polter advise, carry the suggestion out, run again, in turn. The measured gain
(difference of medians) is compared with what was predicted.

The jobs and the competitor run in a control group with the greatest weight, so that other load of the machine, which is not part of the
set-up, weighs little; where there is none, at nice -10."""

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
GROUP = "polter-bench-advice"
PERIOD_US, QUOTA_US = 20000, 30000  # for two ranks: 1.5 CPUs
INPUT = Path(__file__).resolve().parents[1] / "melt.in"


def nice() -> list[str]:
    return [] if heavy() else NICE


def heavy():
    """A group of CPU control for this process and its children, with the greatest weight; None: not possible here."""
    v2 = (CGROUP_V2 / "cgroup.controllers").exists()
    group = (CGROUP_V2 if v2 else CGROUP_V1) / GROUP
    try:
        if v2:
            (CGROUP_V2 / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir(exist_ok=True)
        (group / ("cpu.weight" if v2 else "cpu.shares")).write_text("10000" if v2 else "262144")
    except OSError:
        return None
    return group


def set_quota(group: Path, limited: bool) -> None:
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{QUOTA_US if limited else 'max'} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US if limited else -1))


@contextlib.contextmanager
def in_group(group):
    """This process, and what it starts, in the group."""
    if group is None:
        yield
        return
    home = group.parent / "cgroup.procs"
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        home.write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            group.rmdir()


def job(ranks: int, steps: int, cpus: str) -> list[str]:
    return ["taskset", "-c", cpus, *nice(), "mpirun.openmpi", "--bind-to", "none", "--oversubscribe", "-n", str(ranks),
            "lmp", "-in", str(INPUT), "-log", "none", "-screen", "none", "-var", "steps", str(steps)]


@contextlib.contextmanager
def spinner(folder: Path, cpu: str, idle: bool):
    program = folder / SPINNER
    if not program.exists():
        shutil.copy(shutil.which("sh"), program)
    start = ["chrt", "-i", "0"] if idle else nice()
    process = subprocess.Popen(["taskset", "-c", cpu, *start, str(program), "-c", "while :; do :; done"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


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


def quiet(case: Case, folder: Path, runs: int) -> dict:
    said = []
    for number in range(runs):
        experiment = case.mended(folder, number)
        said.append(advice(experiment))
        shutil.rmtree(experiment, ignore_errors=True)
    nothing = [one["answer"].startswith("Nothing to gain here") for one in said]
    return {"runs": runs, "nothing_to_gain_in": sum(nothing), "answers": [one["answer"] for one, none in zip(said, nothing) if not none]}


def examine(case: Case, folder: Path, pairs: int, seed: int) -> dict:
    if missing := case.needs():
        return {"not_measured": missing}
    if case.kind is None:
        return quiet(case, folder, pairs)
    each = []
    for pair in range(pairs):
        one = {}
        for disturbed in ((True, False) if pair % 2 == 0 else (False, True)):  # in turn, so that a drift of the machine hits both
            experiment = (case.disturbed if disturbed else case.mended)(folder, 2 * pair + disturbed)
            if disturbed:
                said = advice(experiment)
                one["before_ns"] = said["measured_ns"]
                found = [s for s in said["suggestions"] if s["kind"] == case.kind and case.about in json.dumps(s)]
                one["suggested"], one["first"] = bool(found), bool(found) and said["suggestions"][0] in found
                if found:
                    one["predicted_ns"], one["bounds_ns"] = found[0]["saves"]["value"], found[0]["saves"]["interval"]
            else:
                one["after_ns"] = measured_ns(experiment)
            shutil.rmtree(experiment, ignore_errors=True)
        one["gain_ns"] = one["before_ns"] - one["after_ns"]
        one["inside"] = "bounds_ns" in one and one["bounds_ns"][0] <= one["gain_ns"] <= one["bounds_ns"][1]
        each.append(one)
    before, after = [one["before_ns"] for one in each], [one["after_ns"] for one in each]
    gain = int(statistics.median(before) - statistics.median(after))
    result = {"pairs": pairs, "kind": case.kind, "suggested_in": sum(one["suggested"] for one in each),
              "first_suggestion_in": sum(one["first"] for one in each), "gain_inside_bounds_in": sum(one["inside"] for one in each),
              "measured_gain": {"value": gain, "unit": "ns", "interval": interval(before, after, seed)}, "each": each}
    told = [one for one in each if one["suggested"]]
    if told:
        predicted = int(statistics.median(one["predicted_ns"] for one in told))
        bounds = [int(statistics.median(one["bounds_ns"][end] for one in told)) for end in (0, 1)]
        result["predicted_gain"] = {"value": predicted, "unit": "ns", "interval": bounds}
        result["gain_inside_prediction"] = bounds[0] <= gain <= bounds[1]
        result["error_percent_of_gain"] = round(100 * (predicted - gain) / gain, 2) if gain else None
        result["error_percent_of_run"] = round(100 * (predicted - gain) / statistics.median(before), 2)
    return result


def cases(steps: int) -> dict[str, Case]:
    def with_spinner(cpu, idle, ranks, cpus):
        def run(folder, number):
            with spinner(folder, cpu, idle):
                return traced(folder, job(ranks, steps, cpus), number)
        return run

    def with_quota(limited):
        def run(folder, number):
            set_quota(heavy(), limited)
            try:
                return traced(folder, job(2, steps, "0,1"), number)
            finally:
                set_quota(heavy(), False)
        return run

    def root():
        return "" if os.geteuid() == 0 else "needs root"

    def two_cpus():
        return root() or ("" if len(os.sched_getaffinity(0)) > 1 else "needs two CPUs")

    def quota_possible():
        return two_cpus() or ("" if heavy() and any((heavy() / name).exists() for name in ("cpu.max", "cpu.cfs_quota_us"))
                              else "no group with a CPU quota can be made here")

    return {
        "competitor_moved_away": Case("process", SPINNER, with_spinner("0", False, 1, "0"), with_spinner("1", False, 1, "0"), two_cpus),
        "competitor_stopped": Case("process", SPINNER, with_spinner("0", False, 2, "0,1"), lambda f, n: traced(f, job(2, steps, "0,1"), n), two_cpus),
        "competitor_lower_priority": Case("process", SPINNER, with_spinner("0", False, 2, "0,1"), with_spinner("0", True, 2, "0,1"), two_cpus),
        "quota_removed": Case("cpu_quota", "", with_quota(True), with_quota(False), quota_possible),
        "quiet": Case(None, "", lambda f, n: traced(f, job(1, steps, "0"), n), lambda f, n: traced(f, job(1, steps, "0"), n), two_cpus),
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
            with tempfile.TemporaryDirectory(prefix="polter-advice-") as folder, in_group(heavy()):
                results[name] = examine(case, Path(folder), options.pairs, options.seed)
    show({"schema": "polter.bench.advice/1", "seed": options.seed, "set_ups": results})


if __name__ == "__main__":
    main()
