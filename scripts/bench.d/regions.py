# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds of a region of the program (its begin and its end) and of a counter at a call, beyond what reading it costs: in a loop of its
own, and where the program itself reads it on either side of the call. The same program untraced, traced, and traced with counters in turn,
on one rank."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile

import common

COUNTER = "PAGE-FAULTS"
MANY = "TASK-CLOCK,PAGE-FAULTS,MINOR-FAULTS,MAJOR-FAULTS"


def cases(output: str) -> dict[str, float]:
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["case"]: line["ns_per_call"] for line in lines if "case" in line}


def one(command: list[str], exporter: str, counters: str | None) -> dict[str, float]:
    scratch = tempfile.mkdtemp(prefix="polter-bench-")
    try:
        options = ["--perf", counters] if counters else []
        polter = [str(common.POLTER), "run", "-q", "--exporter", exporter, *options, "-o", scratch + "/experiment", "--"]
        done = subprocess.run([*polter, *command], capture_output=True, text=True, timeout=300, cwd=scratch, check=False)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return cases(done.stdout)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure(flavour: str, rounds: int, calls: int, exporter: str) -> dict[str, object]:
    command = [*common.mpirun(flavour, 1), str(common.BUILD / "bench" / flavour / "bench_regions"), str(calls)]
    bare, traced, counted, many = [], [], [], []
    for _ in range(rounds):
        bare.append(cases(common.run([*command, "--read"], traced=False)))
        traced.append(one(command, exporter, None))
        counted.append(one(command, exporter, COUNTER))
        many.append(one(command, exporter, MANY))

    # What follows a system call is slower than in a loop of its own, whoever makes it: in "the program reading it" the program does.
    def beyond(with_counters: list[dict[str, float]], reads: str, between: str) -> dict[str, object]:
        if reads not in bare[0]:
            return {}
        added = [(with_["send_to_nobody"] - without["send_to_nobody"], run) for with_, without, run in zip(with_counters, traced, bare)]
        return {
            "read_ns": common.quartiles([run[reads] for run in bare]),
            "beyond_reading_ns_per_reading": common.quartiles([ns / 2 - run[reads] for ns, run in added]),
            "beyond_the_program_reading_it_ns_per_reading": common.quartiles(
                [(ns - (run[between] - run["send_to_nobody"])) / 2 for ns, run in added]),
        }

    return {
        "untraced_region_ns": common.quartiles([run["region"] for run in bare]),
        "traced_region_ns": common.quartiles([run["region"] for run in traced]),
        "send_to_nobody_added_ns": common.quartiles([a["send_to_nobody"] - b["send_to_nobody"] for a, b in zip(traced, bare)]),
        "one_counter_that_does_not_move": beyond(counted, "read_counter", "send_between_readings"),
        "four_counters_one_of_which_moves": beyond(many, "read_four_counters", "send_between_readings_of_four"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=common.at_least_two, default=7, help="runs of each kind, in turn")
    parser.add_argument("--calls", type=int, default=5000, help="of each kind, 21 times over")
    parser.add_argument("--exporter", default="none")
    options = parser.parse_args()
    flavours = [f for f in ("openmpi", "mpich") if (common.BUILD / "bench" / f / "bench_regions").exists()]
    result = {f: measure(f, options.rounds, options.calls, options.exporter) for f in flavours}
    common.show({"schema": "polter.bench.regions/1", "exporter": options.exporter, "ns": result})


if __name__ == "__main__":
    main()
