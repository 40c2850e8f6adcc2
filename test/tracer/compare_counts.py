#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs an MPI program traced and counted at once, and compares the sealed trace with the independent count (programs/count.c).

    compare_counts.py --tracer libpolter-mpi-X.so --counter libcount-X.so --reader trace_counts -n 2 --launcher mpirun.X [--spoil] program …

The counter is preloaded behind the tracer, so both see the very same calls. --spoil changes one count: the comparison must fail.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

COMPARED = ["sends", "sent_bytes", "receives", "received_bytes", "collectives"]
EVERY_CALL = "0" * 512  # no function is left out, of four a digit


def run(command, environment, limit, stdin=os.devnull):
    print("$", shlex.join(command), flush=True)
    with open(stdin, encoding="utf-8") as file:
        done = subprocess.run(command, env=environment, timeout=limit, check=False, capture_output=True, text=True, stdin=file)
    if done.returncode:
        sys.stdout.write(done.stdout[-3000:] + done.stderr[-3000:])
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tracer", "counter", "reader", "launcher"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("-n", type=int, default=2)
    parser.add_argument("--spoil", action="store_true")
    parser.add_argument("--buffer-chunks", default="2", help="small, so that buffers are flushed in the middle")
    parser.add_argument("--expect", action="append", default=[], help="KEY=NUMBER: attributes or fields that rank 0's trace must have")
    parser.add_argument("--defined", action="append", default=[], help="text that must stand in the archive's global definitions")
    parser.add_argument("--merge-polls", action="store_true", help="failing polls in a row are one call, as usual; else each is recorded")
    parser.add_argument("--same-output", action="store_true", help="the program's output must be what it is untraced")
    parser.add_argument("--stdin", default=os.devnull, help="a file for the program's standard input")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    with tempfile.TemporaryDirectory() as folder:
        experiment, counts = os.path.join(folder, "experiment"), os.path.join(folder, "counts")
        os.mkdir(experiment)
        os.mkdir(counts)
        traced = ["env", f"POLTER_EXPERIMENT={experiment}", "POLTER_EXPORTER=none", f"POLTER_EXCLUDE={EVERY_CALL}",
                  f"POLTER_BUFFER_CHUNKS={options.buffer_chunks}", f"COUNT_OUTPUT={counts}", f"LD_PRELOAD={options.tracer}:{options.counter}"]
        if not options.merge_polls:
            traced.insert(1, "POLTER_EACH_POLL=1")
        launcher = [*shlex.split(options.launcher), "-n", str(options.n)]
        untraced = run([*launcher, *options.program], environment, 240, options.stdin) if options.same_output else None
        done = run([*launcher, *traced, *options.program], environment, 240, options.stdin)
        if done.returncode == 77:
            return 77
        if done.returncode:
            print(f"the program failed: {done.returncode}")
            return 1
        if "polter:" in done.stderr:
            print(f"the tracer complained: {done.stderr}")
            return 1
        if untraced and (not untraced.stdout or (untraced.returncode, untraced.stdout, untraced.stderr) != (0, done.stdout, done.stderr)):
            print(f"untraced: {untraced.returncode}\n{untraced.stdout}{untraced.stderr}\ntraced:\n{done.stdout}{done.stderr}")
            return 1
        read = run([options.reader, experiment], environment, 240)
        if read.returncode:
            return 1
        trace = json.loads(read.stdout)
        failures = [f"trace: {problem}" for problem in trace["problems"]] + [f"sealing: {w}" for w in trace["warnings"] if not w.startswith("tracing took")]
        if len(trace["ranks"]) != options.n:
            failures.append(f"{len(trace['ranks'])} ranks in the trace, {options.n} ran")
        for rank, found in trace["ranks"].items():
            with open(os.path.join(counts, f"{rank}.json"), encoding="utf-8") as file:
                counted = json.load(file)
            if options.spoil and rank == "0":
                counted["received_bytes"] += 1
            if options.merge_polls:
                each, recorded = (of["collectives"].pop("REQUEST_TEST", {"calls": 0})["calls"] for of in (counted, found))
                polls = found["attributes"].get("polter:polls", 0)
                if not 0 < polls or recorded > each:
                    failures.append(f"rank {rank}: {each} failing tests, {recorded} of them recorded, {polls} calls of several polls")
            for key in COMPARED:
                if found[key] != counted[key]:
                    failures.append(f"rank {rank}: {key}: trace {found[key]}, counted {counted[key]}")
            print(f"rank {rank}:", json.dumps({k: found[k] for k in found if k not in ("calls",)}))
        if options.defined:
            definitions = run(["otf2-print", "-G", os.path.join(experiment, "traces.otf2")], environment, 240)
            failures += [f"not defined in the archive: {text}" for text in options.defined if text not in definitions.stdout]
        for expected in options.expect:
            key, number = expected.rsplit("=", 1)
            zero = trace["ranks"]["0"]
            value = zero["attributes"].get(key, zero.get(key, zero["calls"].get(key, 0)))
            if value != int(number):
                failures.append(f"rank 0: {key} is {value}, expected {number}")
        print("\n".join(failures) or "trace and independent count agree")
        if options.spoil:
            return 0 if failures else 1
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
