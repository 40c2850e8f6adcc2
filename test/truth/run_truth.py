#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares what `polter replay` estimates with the truth: the same program on the same simulated machine, without its noise.

Each case of cases.json is simulated twice under one seed, noisy and quiet. The true accumulated noise is the difference of the two
runtimes. The noisy run is recorded with each noise event in its place ("events") and with counters read at MPI events only
("counters"); both are replayed, and judged by bars.py. Exit code: 0 all bars held, 1 a bar was missed or something failed, 2 wrong usage, 77 cannot run here.

    test/truth/run_truth.py --quick
    test/truth/run_truth.py --only 'wavefront-64-*' --keep --work /tmp/truth
"""

import argparse
import concurrent.futures
import fnmatch
import itertools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import bars
from machine import Failed, Machine

HERE = pathlib.Path(__file__).resolve().parent


def expand(data, seed_offset=0):
    """Every combination in every group, under names that say what it is."""
    for group in data["groups"]:
        for ranks, machine, noise, seed in itertools.product(group["ranks"], group["machine"], group["noise"], group["seed"]):
            seed += seed_offset
            arguments = dict(group["arguments"])
            dimensions = f"{arguments['dimensions']}d" if "dimensions" in arguments else ""
            yield {
                "name": f"{group['pattern']}{dimensions}-{ranks}-{machine}-{noise}-{seed}-{arguments.get('bytes', 8)}"
                + ("-cold" if arguments.get("cold") else ""),
                "pattern": group["pattern"],
                "ranks": ranks,
                "machine_name": machine,
                "machine": data["machines"][machine],
                "noise": data["noise"][noise],
                "seed": seed,
                "arguments": arguments,
                "quick": group.get("quick", False) is True or group.get("quick") == [ranks, noise],  # all of the group, or one number and noise
                "dependencies": group.get("dependencies"),
            }


def replay(polter, trace, remove):
    # --attribution: its event graph is checked against the replay, and a contradiction is an error
    command = [str(polter), "replay", "--json", "-q", "--attribution", str(trace)] + (["--remove", remove] if remove is not None else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no end after 600 s: {' '.join(command)}") from error
    if done.returncode != 0:
        raise Failed(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def judge(result, quiet_ns, true_ns, estimator):
    """One replay against the truth. Errors in percent of the true accumulated noise and of the quiet runtime."""
    if estimator == "local":  # deliberately naive: what was stolen from the average rank, as if nothing spread and nothing was absorbed
        noise = round(result["local_noise_ns"]["mean"])
    else:
        noise = result["accumulated_noise_ns"]
    low, high = result["approximated_bounds_ns"]
    error = noise - true_ns
    return {
        "estimated_noise_ns": noise,
        "error_ns": error,
        "error_percent": 100 * error / true_ns if true_ns else None,
        "error_percent_of_runtime": 100 * error / quiet_ns,
        "bounds_cover": low <= quiet_ns <= high,
        "bounds_width_percent": 100 * (high - low) / quiet_ns,
        "conditional": result["conditional"],
        "warnings": result["warnings"],
    }


def consistent(ranks, noisy, result):
    """What the replay must have read from the trace, estimates apart: the recorder knows it too."""
    stolen = sum(noisy["noise_ns"])
    if result["ranks"] != ranks:
        raise Failed(f"the replay sees {result['ranks']} ranks of {ranks}")
    if result["measured_ns"] != noisy["runtime_ns"]:
        raise Failed(f"the replay measures {result['measured_ns']} ns, the simulation took {noisy['runtime_ns']} ns")
    if abs(result["local_noise_ns"]["mean"] * ranks - stolen) > ranks:
        raise Failed(f"the replay finds {result['local_noise_ns']['mean'] * ranks:.0f} ns of noise, {stolen} ns hit")


def compare(machine, arguments, folder, options, habits=()):
    """One program with noise and without; its replays against the truth, and by how much recorders' habits change the estimates. The traces
    stay in `folder`."""
    as_others = [text for habit in habits for text in ("--habit", habit)]
    noisy = machine.run(arguments + ["--detailed", folder / "events", "--counters", folder / "counters"] + as_others)
    quiet = machine.run(arguments + ["--quiet", "--detailed", folder / "quiet"])
    true_ns = noisy["runtime_ns"] - quiet["runtime_ns"]
    outcome = {
        "runtime_ns": quiet["runtime_ns"],
        "true_noise_ns": true_ns,
        "slowdown_percent": 100 * true_ns / quiet["runtime_ns"],
        "local_noise_mean_ns": round(statistics.mean(noisy["noise_ns"])),
    }
    for form in ("events", "counters"):
        result = replay(options.polter, folder / form / "traces.otf2", options.remove)
        if options.remove is None:
            consistent(machine.ranks, noisy, result)
        outcome[form] = judge(result, quiet["runtime_ns"], true_ns, options.estimator)
        for habit in habits:
            again = replay(options.polter, folder / f"{form}-{habit}" / "traces.otf2", options.remove)
            outcome[form].setdefault("habits", {})[habit] = again["accumulated_noise_ns"] - outcome[form]["estimated_noise_ns"]
    without_noise = replay(options.polter, folder / "quiet" / "traces.otf2", None)
    if without_noise["accumulated_noise_ns"] != 0 or without_noise["approximated_ns"] != quiet["runtime_ns"]:
        raise Failed(f"a trace without noise replays to {without_noise['accumulated_noise_ns']} ns of it")
    return outcome


def run_case(case, options, habits=()):
    folder = pathlib.Path(options.work) / case["name"]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        machine = Machine(case["machine"], case["ranks"], folder, options.smpirun, options.program)
        arguments = ["--pattern", case["pattern"], "--seed", case["seed"]]
        arguments += [text for key, value in case["arguments"].items() for text in (f"--{key}", value)]
        arguments += [text for source in case["noise"] for text in ("--noise", source)]
        outcome = {"name": case["name"], "pattern": case["pattern"], "machine": case["machine_name"], "dependencies": case["dependencies"]}
        outcome |= compare(machine, arguments, folder, options, habits)
        outcome["missed"] = bars.missed_by(outcome)
    except Failed as error:
        outcome = {"name": case["name"], "dependencies": case["dependencies"], "failed": str(error)}
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{case['name']}: {'FAILED' if 'failed' in outcome else ', '.join(outcome['missed']) or 'ok'}", file=sys.stderr, flush=True)
    return outcome


def table(outcomes):
    header = ["case", "quiet ms", "slowdown", "events: error", "bounds", "counters: error", "bounds", ""]
    rows = []
    for o in outcomes:
        if "failed" in o:
            rows.append([o["name"], "", "", "", "", "", "", "FAILED"])
            continue
        row = [o["name"], f"{o['runtime_ns'] / 1e6:.1f}", f"{o['slowdown_percent']:.1f} %"]
        for form in ("events", "counters"):
            j = o[form]
            row.append("-" if j["error_percent"] is None else f"{j['error_percent']:+.3f} %")
            row.append(f"{j['bounds_width_percent']:.2f} % {'' if j['bounds_cover'] else 'MISS '}{'cond.' if j['conditional'] else ''}".strip())
        rows.append(row + ["MISSED: " + ", ".join(o["missed"]) if o["missed"] else o["dependencies"] or ""])
    widths = [max(len(row[i]) for row in [header] + rows) for i in range(len(header))]
    for row in [header] + rows:
        cells = [cell.ljust(width) if i in (0, 7) else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        yield "  ".join(cells).rstrip()


def by_pattern(outcomes):
    """A Markdown table: one line for each pattern on each machine, medians and maxima over its cases."""
    yield "| pattern | machine | cases | slowdown | error with events: median, most | bounds, % of the runtime | with counters | bounds | dependencies |"
    yield "|---|---|---|---|---|---|---|---|---|"
    groups = {}
    for o in outcomes:
        if "failed" not in o:
            groups.setdefault((o["pattern"], o["machine"], o["dependencies"]), []).append(o)
    for (pattern, machine, dependencies), cases in groups.items():
        cells = [pattern, machine, str(len(cases))]
        slowdowns = [o["slowdown_percent"] for o in cases]
        cells.append(f"{min(slowdowns):.0f}–{max(slowdowns):.0f} %" if len(cases) > 1 else f"{slowdowns[0]:.0f} %")
        for form in ("events", "counters"):
            errors = [abs(o[form]["error_percent"] or 0) for o in cases]
            cells.append(f"{statistics.median(errors):.2f} %, {max(errors):.2f} %")
            width = statistics.median(o[form]["bounds_width_percent"] for o in cases)
            not_covered = sum(not o[form]["bounds_cover"] for o in cases)
            conditional = any(o[form]["conditional"] for o in cases)
            cells.append(f"{width:.2f}" + (f", {not_covered} missed" if not_covered else "") + (", conditional" if conditional else ""))
        missed = sum(bool(o["missed"]) for o in cases)
        cells.append((dependencies or "open") + (f", {missed} missed" if missed else ""))
        yield "| " + " | ".join(cells) + " |"


def overall(result):
    for bar in result["overall"]:
        yield f"{'held  ' if bar['held'] else 'MISSED'} {bar['name']}: {bar['value']:.2f}, at most {bar['most']}"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = HERE.parent.parent / "build"
    parser.add_argument("--polter", default=build / "polter", help="default: %(default)s")
    parser.add_argument("--program", default=build / "test" / "truth" / "truth_program", help="default: %(default)s")
    parser.add_argument("--smpirun", default=shutil.which("smpirun"))
    parser.add_argument("--cases", default=HERE / "cases.json")
    parser.add_argument("--quick", action="store_true", help="the quick subset only")
    parser.add_argument("--bars-only", action="store_true", help="only cases that have a bar")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--seed-offset", type=int, default=0, help="added to every seed: what is tuned to one seed is wrong")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", help="folder for traces (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep the traces")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--by-pattern", action="store_true", help="a summary as Markdown in place of the table")
    parser.add_argument("--remove", help="passed to the replay: an estimate that removes too little must miss")
    parser.add_argument("--estimator", choices=["replay", "local"], default="replay", help="local: a naive estimate that must miss")
    parser.add_argument("--expect-miss", action="store_true", help="exit 0 if every case with visible dependencies and a slowdown of 10 %% misses it")
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    if not options.smpirun:
        print("SKIP: SimGrid's smpirun is not installed (scripts/setup installs libsimgrid-dev)")
        return 77
    for needed in (options.polter, options.program):
        if not pathlib.Path(needed).exists():
            print(f"run_truth.py: {needed} is not there; build it, or say where it is with --polter and --program", file=sys.stderr)
            return 1
    options.program = pathlib.Path(options.program).resolve()
    data = json.loads(pathlib.Path(options.cases).read_text())
    cases = [c for c in expand(data, options.seed_offset) if fnmatch.fnmatch(c["name"], options.only)]
    cases = [c for c in cases if (c["quick"] or not options.quick) and (c["dependencies"] or not options.bars_only)]
    if not cases:
        print("run_truth.py: no case matches", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="truth-") as temporary:
        options.work = options.work or temporary
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda case: run_case(case, options), cases))
    result = bars.summary(outcomes, whole=options.only == "*" and not options.quick and not options.bars_only)
    if options.json:
        print(json.dumps({"schema": "polter.truth/1", "seed_offset": options.seed_offset, "summary": result, "cases": outcomes}, indent=1))
    else:
        print("\n".join((by_pattern if options.by_pattern else table)(outcomes)))
        print("\n" + "\n".join(overall(result)))
        print(f"{result['missed']} of {result['cases']} cases missed a bar, {result['failed']} failed; seed offset {options.seed_offset}")
    for o in outcomes:
        if "failed" in o:
            print(f"FAILED {o['name']}: {o['failed']}", file=sys.stderr)
    if options.expect_miss:
        slowed = [o for o in outcomes if o["dependencies"] == "visible" and o.get("slowdown_percent", 0) >= 100 * bars.SLOWDOWN_WANTED]
        caught = [o for o in slowed if "error" in o["missed"]]
        print(f"the wrong estimate was caught in {len(caught)} of {len(slowed)} cases")
        return 0 if slowed and caught == slowed and not result["failed"] else 1
    return 0 if result["held"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
