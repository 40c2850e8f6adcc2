# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds that the tracer adds to a parallel region and to a barrier of OpenMP, on one rank with one and with two threads, each on its
CPU. The same program untraced and traced in turn. An event is one record of a thread: a barrier has two on each, a region two on a worker
and six on the thread that begins it. With one thread nothing but the events is measured; with more, waiting for each other is in it too."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import common

EVENTS = {"region": 6, "barrier": 2}


def cases(output: str) -> dict[str, float]:
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["case"]: line["ns_per_call"] for line in lines if "case" in line}


def traced(command: list[str], exporter: str, environment: dict[str, str]) -> dict[str, float]:
    scratch = tempfile.mkdtemp(prefix="polter-bench-")
    try:
        polter = [str(common.POLTER), "run", "-q", "--exporter", exporter, "-o", scratch + "/experiment", "--"]
        done = subprocess.run([*polter, *command], capture_output=True, text=True, timeout=300, cwd=scratch, check=False, env=environment)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return cases(done.stdout)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def plain(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    return cases(subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment).stdout)


def measure(flavour: str, threads: int, rounds: int, calls: int, exporter: str) -> dict[str, object]:
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_DYNAMIC="false", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_hwloc_base_binding_policy="none")
    command = [f"mpirun.{flavour}", "-n", "1", str(common.BUILD / "bench" / flavour / "bench_openmp"), str(calls)]
    pairs = [(plain(command, environment), traced(command, exporter, environment)) for _ in range(rounds)]
    result = {}
    for case, events in EVENTS.items():
        added = [with_[case] - without[case] for without, with_ in pairs]
        result[case] = {"untraced_ns": statistics.median(without[case] for without, _ in pairs), "added_ns": common.quartiles(added),
                        "added_ns_per_event_of_the_master": common.quartiles([ns / events for ns in added])}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=common.at_least_two, default=7, help="runs of each kind, in turn")
    parser.add_argument("--calls", type=int, default=5000, help="of each kind, 21 times over")
    parser.add_argument("--exporter", default="none")
    options = parser.parse_args()
    flavours = [f for f in ("openmpi", "mpich") if (common.BUILD / "bench" / f / "bench_openmp").exists()]
    counts = [n for n in (1, 2) if n <= len(os.sched_getaffinity(0))]
    result = {f: {f"{n} threads": measure(f, n, options.rounds, options.calls, options.exporter) for n in counts} for f in flavours}
    common.show({"schema": "polter.bench.threads/1", "exporter": options.exporter, "openmp": result})


if __name__ == "__main__":
    main()
