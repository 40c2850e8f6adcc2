#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares what `polter replay --inject` predicts with the truth: the quiet run of a program, and the noise that hit its noisy run.

Each case of cases.json that matches is simulated twice under one seed. The noise events of the noisy run are read from its trace by an
independent reader (otf2-print) and written as a file of injected noise; the quiet run's trace and that file go through the replay, and what
it predicts is compared with how long the noisy run really took. The bar is 2 % of what the noise truly cost, or 0.05 % of the runtime,
whichever is larger. Exit code: 0 all held, 1 a bar was missed or something failed, 2 wrong usage, 77 cannot run here.

    test/truth/run_inject.py --only 'wavefront-64-cluster-mixed*'
"""

import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check_trace import read
from machine import Failed, Machine
from bars import RUNTIME_TOLERANCE
from run_truth import expand

HERE = pathlib.Path(__file__).resolve().parent
BAR_PERCENT = 2
DEFAULT = ["barrier-64-cluster-*", "stencil2d-64-cluster-*", "stencil-64-cluster-*", "wavefront-64-cluster-*", "rooted-64-*"]
VALUE = re.compile(r'Value: \("os:([^"]+)" <\d+>; UINT64; (\d+)\)')


def injected_noise(archive):
    """The file of injected noise that repeats what hit in a detailed trace; its ranks are the locations."""
    events, before, first = {}, {}, None
    for kind, location, time, text in read(archive):
        first = time if first is None else min(first, time)
        if kind != "METRIC":
            continue
        source, value = VALUE.search(text).groups()
        duration = int(value) - before.get((location, source), 0)
        before[location, source] = int(value)
        if duration > 0:
            events.setdefault(source, []).append((location, time - duration, duration))
    sources = [
        {"name": name, "events": [{"rank": rank, "time_ns": max(0, begin - first), "duration_ns": ns} for rank, begin, ns in listed]}
        for name, listed in sorted(events.items())
    ]
    return {"schema": "polter.inject/1", "sources": sources}


def run_case(case, options):
    folder = pathlib.Path(options.work) / case["name"]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        machine = Machine(case["machine"], case["ranks"], folder, options.smpirun, options.program)
        arguments = ["--pattern", case["pattern"], "--seed", case["seed"]]
        arguments += [text for key, value in case["arguments"].items() for text in (f"--{key}", value)]
        arguments += [text for source in case["noise"] for text in ("--noise", source)]
        noisy = machine.run(arguments + ["--detailed", folder / "events"])
        quiet = machine.run(arguments + ["--quiet", "--detailed", folder / "quiet"])
        noise = folder / "noise.json"
        noise.write_text(json.dumps(injected_noise(folder / "events" / "traces.otf2")))
        command = [str(options.polter), "replay", "--json", "-q", "--inject", str(noise), str(folder / "quiet" / "traces.otf2")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise Failed(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr.strip()}")
        injected = json.loads(done.stdout)["injected"]
        true_ns = noisy["runtime_ns"] - quiet["runtime_ns"]
        added_ns = injected["added_ns"]
        if options.estimator == "local":  # deliberately naive: every rank takes as much longer as the mean of what hits
            added_ns = sum(s["local_noise_ns"]["mean"] for s in injected["sources"].values())
        low, high = injected["predicted_bounds_ns"]
        if sum(s["share_ns"] for s in injected["sources"].values()) != injected["added_ns"]:
            raise Failed("the sources' shares do not add up to what is added")
        allowed = max(BAR_PERCENT / 100 * abs(true_ns), RUNTIME_TOLERANCE * quiet["runtime_ns"])
        outcome = {
            "name": case["name"],
            "runtime_ns": quiet["runtime_ns"],
            "true_noise_ns": true_ns,
            "predicted_noise_ns": added_ns,
            "error_percent": 100 * (added_ns - true_ns) / true_ns if true_ns else None,
            "bounds_cover": low <= noisy["runtime_ns"] <= high,
            "held": abs(added_ns - true_ns) <= allowed,
        }
    except Failed as error:
        outcome = {"name": case["name"], "failed": str(error), "held": False}
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--polter", default="build/polter")
    parser.add_argument("--program", default="build/test/truth/truth_program")
    parser.add_argument("--smpirun", default=shutil.which("smpirun"))
    parser.add_argument("--only", action="append", metavar="PATTERN", help="cases of cases.json whose name matches; may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", help="folder for traces (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep the traces")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--estimator", choices=["replay", "local"], default="replay", help="local: a naive estimate that must miss")
    parser.add_argument("--expect-miss", action="store_true", help="exit 0 if every case misses its bar")
    options = parser.parse_args(argv)
    for tool, package in ((options.smpirun, "libsimgrid-dev"), (shutil.which("otf2-print"), "otf2-tools")):
        if not tool:
            print(f"SKIP: smpirun or otf2-print is not installed (scripts/setup installs {package})")
            return 77
    options.program = pathlib.Path(options.program).resolve()
    cases = expand(json.loads((HERE / "cases.json").read_text()))
    cases = [c for c in cases if any(fnmatch.fnmatch(c["name"], pattern) for pattern in options.only or DEFAULT)]
    cases = list({c["name"]: c for c in cases}.values())
    if not cases:
        print("run_inject.py: no case matches", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="inject-") as temporary:
        options.work = options.work or temporary
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda case: run_case(case, options), cases))
    if options.json:
        print(json.dumps({"schema": "polter.truth.inject/1", "cases": outcomes}, indent=1))
    else:
        for o in outcomes:
            if "failed" in o:
                print(f"{o['name']:50} FAILED {o['failed']}")
                continue
            print(f"{o['name']:50} quiet {o['runtime_ns'] / 1e6:9.1f} ms, noise costs {o['true_noise_ns'] / 1e6:8.2f} ms, "
                  f"predicted {o['predicted_noise_ns'] / 1e6:8.2f} ms: {o['error_percent']:+7.3f} %"
                  f"{'' if o['bounds_cover'] else ' outside of the bounds'}{'' if o['held'] else ' MISSED'}")
    missed = [o for o in outcomes if not o["held"]]
    failed = [o for o in outcomes if "failed" in o]
    print(f"{len(missed)} of {len(outcomes)} bars missed, {len(failed)} failed", file=sys.stderr)
    if options.expect_miss:
        return 0 if len(missed) == len(outcomes) and not failed else 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
