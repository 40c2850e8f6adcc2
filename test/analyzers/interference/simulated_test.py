#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter interference on the simulator, where the truth is known: two kinds of iterations, runs with more and more interference from 0 to 40 %.

--noisy also has OS noise on all ranks in all runs, as a real machine has."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "truth"))
import machine  # noqa: E402

MACHINE = {"bandwidth": "12.5GBps", "latency": "1us"}
COMPUTE_NS = 10_000_000
HIT_SHARE = 0.2  # of the segments; more than a half would move the medians


def delays(target, ranks):
    """What makes `target` of the run interference: probability of a call's delay and its mean. A segment has two calls on each rank."""
    mean_segment = COMPUTE_NS * (3 + 1.6) / 4
    return 1 - (1 - HIT_SHARE) ** (1 / (2 * ranks)), target / (1 - target) * mean_segment / HIT_SHARE


def faults(value):
    """Where a result differs from its schema; nothing is checked without python3-jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return []
    schema = json.loads((pathlib.Path(__file__).parents[3] / "docs/interference.schema.json").read_text(encoding="utf-8"))
    return [error.message[:200] for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polter", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--noisy", action="store_true")
    parser.add_argument("--median", type=float, default=0.95, help="Least median accuracy")
    parser.add_argument("--least", type=float, default=0.85, help="Least accuracy of any run")
    parser.add_argument("--without-counter", action="store_true", help="The kinds of iterations cannot be told apart: the accuracy must be missed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        simulated = machine.Machine(MACHINE, arguments.ranks, folder, shutil.which("smpirun"), arguments.program)
        traces, truth = [], []
        for run in range(arguments.runs):
            target = 0.4 * run / (arguments.runs - 1)
            probability, mean = delays(target, arguments.ranks)
            trace = folder / f"run{run}"
            options = ["--pattern", "two_kinds", "--iterations", arguments.iterations, "--compute-ns", COMPUTE_NS, "--imbalance", 0.02, "--detailed", trace]
            if not arguments.without_counter:
                options += ["--instructions-per-ns", 2]
            if arguments.noisy:
                options += ["--noise", "timer:periodic:period=4000000,duration=5000", "--noise", "preempt:random:period=300000000,duration=200000"]
            if target > 0:
                options += ["--delay-probability", f"{probability:.9f}", "--delay-ns", round(mean), "--delay-sigma-ns", round(mean / 4), "--delay-seed", run]
            truth.append(simulated.run(options)["runtime_ns"])
            traces.append(trace)
        done = subprocess.run([arguments.polter, "interference", "--json", "--no-noise", *traces], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"polter interference failed: {done.stderr}")
        result = json.loads(done.stdout)
    if faults(result):
        sys.exit(f"the result differs from its schema: {faults(result)}")
    accuracies = []
    print(f"{'true %':>8} {'measured %':>10} {'estimated %':>11} {'class':>7} {'accuracy':>8}")
    for run, one in enumerate(result["runs"]):
        accuracies.append(one["measured"]["accuracy"])
        true = 100 * (truth[run] - truth[0]) / truth[run]
        print(f"{true:8.2f} {one['measured']['interference']['value']:10.2f} {one['interference']['value']:11.2f} {one['class']:>7} {accuracies[-1]:8.3f}")
    median, least = statistics.median(accuracies), min(accuracies)
    held = median >= arguments.median and least >= arguments.least
    print(f"{'held' if held else 'MISSED'}: median {median:.3f} (at least {arguments.median}), least {least:.3f} (at least {arguments.least})")
    return int(held if arguments.without_counter else not held)


if __name__ == "__main__":
    sys.exit(main())
