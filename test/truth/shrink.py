# SPDX-License-Identifier: BSD-3-Clause
"""Makes a failing case of random_program.py smaller while it fails in the same way: fewest phases, ranks, repetitions and settings."""

import copy
import json
import sys

import fuzz_bars
import fuzz_report
import random_program

SLOWDOWN_WANTED = 0.2  # % of the runtime: with less noise an error means little
PLAIN = {"imbalance": 0, "skew": 0, "spread": 0, "groups": 1, "strided": 0, "synchronous": 0, "rotate": 0, "overlap": 0, "root": 0, "distance": 1}


def without(items, first, count):
    return items[:first] + items[first + count :]


def fewer(case, key, items):
    """Cases with a half, a quarter, … and single ones of a list dropped; the large cuts first."""
    count = len(items) // 2 or 1
    while count and len(items) > 1:
        for first in range(0, len(items), count):
            if len(without(items, first, count)) > 0:
                smaller = copy.deepcopy(case)
                smaller[key] = without(items, first, count)
                yield smaller
        count //= 2


def fewer_phases(case):
    for b, block in enumerate(case["blocks"]):
        for smaller in fewer(block, "phases", block["phases"]):
            yield case | {"blocks": [smaller if i == b else other for i, other in enumerate(case["blocks"])]}


def fewer_ranks(case):
    for ranks in (2, 3, 4, case["ranks"] // 2, case["ranks"] - 1):
        if 2 <= ranks < case["ranks"]:
            # A source that hits one rank hits one of those left.
            noise = [source.rpartition("rank=")[0] + f"rank={int(source.rpartition('rank=')[2]) % ranks}" if "rank=" in source else source
                     for source in case["noise"]]  # fmt: skip
            yield case | {"ranks": ranks, "noise": noise}


def fewer_repetitions(case):
    for b, block in enumerate(case["blocks"]):
        for repeat in (1, block["repeat"] // 4, block["repeat"] // 2, block["repeat"] * 3 // 4):
            if 1 <= repeat < block["repeat"]:
                yield case | {"blocks": [other | {"repeat": repeat} if i == b else other for i, other in enumerate(case["blocks"])]}


def plainer_phases(case):
    for b, block in enumerate(case["blocks"]):
        for n, phase in enumerate(block["phases"]):
            for key, value in PLAIN.items():
                if phase.get(key, value) != value:
                    smaller = copy.deepcopy(case)
                    smaller["blocks"][b]["phases"][n][key] = value
                    yield smaller


def steps(case):
    """Smaller cases, the most promising first."""
    yield from fewer(case, "blocks", case["blocks"])
    yield from fewer_phases(case)
    yield from fewer_ranks(case)
    yield from fewer_repetitions(case)
    yield from fewer(case, "noise", case["noise"])
    yield from plainer_phases(case)


def shrink(case, fails, runs):
    """The smallest case found for which `fails(case)`; `fails(case)` itself must hold."""
    while True:
        for smaller in steps(case):
            if runs == 0:
                return case
            runs -= 1
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def main(case, options, run_case):
    """Of `--shrink`. Exit code: 0 a smaller case was written, 1 the case does not fail."""
    outcome = run_case(case, options)
    reason = fuzz_bars.failing(outcome)
    print(fuzz_report.HEADER, file=sys.stderr)
    print(fuzz_report.line(outcome), file=sys.stderr)
    if reason is None:
        print(f"seed {case['seed']} does not fail", file=sys.stderr)
        return 1

    def fails(smaller):
        tried = run_case(smaller, options, "shrinking")
        if fuzz_bars.failing(tried) != reason:
            return False
        if "failed" not in tried and tried["slowdown_percent"] < SLOWDOWN_WANTED:
            return False
        print(fuzz_report.line(tried), file=sys.stderr, flush=True)
        return True

    smallest = shrink(case, fails, options.runs) | {"open": f"{reason}; from seed {case['seed']}"}
    smallest.pop("name", None)  # a file's name is its case's
    kinds = "-".join(dict.fromkeys(random_program.kinds_of(smallest)))[:60]
    text = json.dumps(smallest, indent=1)
    if options.to:
        options.to.mkdir(parents=True, exist_ok=True)
        file = options.to / f"{kinds}-{case['seed']}.json"
        file.write_text(text + "\n")
        print(file)
    else:
        print(text)
    print(random_program.program_text(smallest), file=sys.stderr)
    return 0
