#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does the replay agree with the real machine? A bulk-synchronous program (Allreduce; messages that are sent at once; messages that wait
for their receiver) with a competitor on rank 1's CPU at several shares, interleaved with runs without: the approximated time of the
disturbed runs against the median of the quiet ones. Prints JSON.

    bench_disturbance.py [--pairs 10] [--shares 5,20] [--mpi openmpi] [--patterns allreduce,eager] [--hosts] [--check]

--hosts: each rank on a host of its own (two_hosts.py), where the competitor must be named with its host. --check: exit code 1 beyond 2 %.
Where other programs take more than that from the quiet runs as well, only what the replay makes of both kinds of run is compared.
"""
import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys

import polter_run as p
import two_hosts as t

LIMIT = 0.02
PHASES, WORK = 300, 4_000_000
PATTERNS = {"allreduce": 0, "eager": 1_000, "rendezvous": 1_000_000}  # bytes of a message


def program_ns(result, key):
    """Without start and end of MPI, which vary more from run to run than what is measured here."""
    return result[key] - result["init_ns"] - result["finalize_ns"]


def one(flavour, pattern, hosts):
    with p.folder() as folder:
        program = [p.PROGRAMS / flavour / "bsp", PHASES, WORK, -1, 100, PATTERNS[pattern]]
        if hosts:
            words = hosts.on_first([p.POLTER, "run", "--json", "-q", "-o", folder / "e", "--mpi", flavour, "--", *hosts.job(flavour, *program)])
            done = p.command(words, {**t.ENVIRONMENT, **p.said_by_bsp(folder / "e")})
            if done.returncode:
                raise SystemExit(f"exit code {done.returncode}: {done.stderr[-3000:]}")
            return json.loads(done.stdout)
        run = p.Run([*p.launcher(flavour, 2), *program], folder / "e", ["-q"])
        if run.code or run.result is None:
            raise SystemExit(run.explain())
        return run.result


def named_with_host(result):
    """Whether most of what rank 1 lost to the competitor has its name and its host."""
    rival = [c for c in result["culprits"] if (c["culprit"], c["source"]) == ("polter-rival", "preempt")]
    return bool(rival) and max(rival, key=lambda c: c["local_ns"])["host"] == t.HOSTS[1]


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "quartiles": [low, high]}


def bench(flavour, pattern, share, pairs, hosts):
    named = 0
    quiet, quiet_approximated, disturbed, approximated = [], [], [], []
    for _ in range(pairs):
        result = one(flavour, pattern, hosts)
        quiet.append(program_ns(result, "measured_ns"))
        quiet_approximated.append(program_ns(result, "approximated_ns"))
        with p.rival(1, share):
            result = one(flavour, pattern, hosts)
        named += bool(hosts) and named_with_host(result)
        disturbed.append(program_ns(result, "measured_ns"))
        approximated.append(program_ns(result, "approximated_ns"))
    middle = statistics.median(quiet)
    on_hosts = {"named_with_host": named} if hosts else {}
    return {"mpi": flavour, "pattern": pattern, "share_percent": share, "pairs": pairs, **on_hosts, "quiet_ns": quartiles(quiet), "disturbed_ns": quartiles(disturbed),
            "approximated_ns": quartiles(approximated), "slowdown": statistics.median(disturbed) / middle - 1,
            "error": statistics.median(approximated) / middle - 1, "quiet_spread": (max(quiet) - min(quiet)) / middle,
            # What the replay takes for noise in the runs without the competitor: where that is much, they are no measure.
            "quiet_noise": 1 - statistics.median(quiet_approximated) / middle,
            "error_against_quiet_approximated": statistics.median(approximated) / statistics.median(quiet_approximated) - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--shares", default="5,20")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--mpi", default=",".join(p.FLAVOURS))
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not p.FLAVOURS or len(os.sched_getaffinity(0)) < 2:
        print("SKIP: needs an MPI and two CPUs")
        return 77
    why = p.exporter_works() or (options.hosts and t.missing())
    if why:
        print("SKIP: cannot run here: " + why.splitlines()[0])
        return 77
    p.go_first()
    combinations = itertools.product(options.mpi.split(","), options.patterns.split(","), options.shares.split(","))
    with t.hosts() if options.hosts else contextlib.nullcontext() as hosts:
        results = [bench(flavour, pattern, int(share), options.pairs, hosts) for flavour, pattern, share in combinations]
    print(json.dumps({"schema": "polter.bench.disturbance/1", "limit": LIMIT, "results": results}, indent=2))
    if any(r.get("named_with_host", r["pairs"]) != r["pairs"] for r in results):
        print("the competitor was not named with its host in each run")
        return 1
    if options.check and any(abs(r["error_against_quiet_approximated"]) > LIMIT for r in results):
        print("with and without the competitor the replay does not come to the same time without noise")
        return 1
    if options.check and max(r["quiet_noise"] for r in results) > LIMIT:
        print("SKIP: the machine is not quiet: without the competitor other programs already took more than the error allowed")
        return 77
    return 1 if options.check and any(abs(r["error"]) > LIMIT for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
