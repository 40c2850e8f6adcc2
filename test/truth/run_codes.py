#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Codes of others against the truth: what run_truth.py does with the bench's patterns, this does with programs/codes_*.cpp.

    test/truth/run_codes.py --quick --bars reached             a few small cases (ctest's truth_codes)
    test/truth/run_codes.py --bars reached                     everything (ctest -L long)
    test/truth/run_codes.py --by-code                          a summary as Markdown
    test/truth/run_codes.py --only 'npb_cg-*-20us-*' --keep --work DIR

codes.json says how large the codes are; every code runs at each grain, latency and selection of collectives. Exit code: 0 all well, 1 a
bar of --bars was missed or something failed, 2 wrong usage, 77 cannot run here.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import itertools
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

import bars
import codes_bars
import fuzz_bars
import fuzz_truth
import run_truth

HERE = pathlib.Path(__file__).resolve().parent
FORMS = tuple(codes_bars.LIMITS)


def expand(data, seed_offset=0):
    """Each code with each number of ranks at each grain on each machine; kinds and places of noise take turns."""
    for index, (name, code) in enumerate(data["codes"].items()):
        for grain, (turn, ranks), (place, (machine, description)) in itertools.product(
            data["noise"], enumerate(code["ranks"]), enumerate(data["machines"].items())
        ):
            noises = list(data["noise"][grain].items())
            noise, sources = noises[(index + turn + place) % len(noises)]
            seed = 1 + index + seed_offset
            yield {
                "name": f"{name}-{ranks}-{grain}-{description['latency']}-{description['collectives']}-{noise}-{seed}",
                "pattern": name,
                "ranks": ranks,
                "grain": grain,
                "machine_name": machine,
                "machine": description,
                "noise": sources,
                "seed": seed,
                "arguments": {key: value for key, value in code.items() if key in ("imbalance", "skew")} | code[grain],
                "quick": bool(code.get("quick")) and grain == "natural" and turn == 0 and place == code["quick"] - 1,
                "dependencies": code.get("dependencies", "visible"),
            }


def run(case, options):
    kept = {key: case[key] for key in ("grain", "ranks", "noise", "quick")}
    return run_truth.run_case(case, options, options.habit) | kept | {"latency": case["machine"]["latency"], "pattern": case["pattern"]}


def bounds(judged):
    where = "cond." if judged["conditional"] else "in" if judged["bounds_cover"] else "OUT"
    if judged["conditional"] and not judged["bounds_cover"]:
        where = "cond. out"
    return f"{judged['bounds_width_percent']:.2f}% {where}"


def line(o):
    if "failed" in o:
        said = o["failed"].splitlines()
        return f"{o['name']:52} FAILED: {said[0][:60]} … {said[-1][:200]}"
    text = f"{o['name']:52} {o['runtime_ns'] / 1e6:8.2f} {o['slowdown_percent']:7.2f}%"
    for form in FORMS:
        error = o[form]["error_percent"]
        text += f" {'-' if error is None else f'{error:+.2f}%':>10} {bounds(o[form]):>16}"
    return text


HEADER = f"{'case':52} {'quiet ms':>8} {'slowed':>8} {'events':>10} {'bounds':>16} {'counters':>10} {'bounds':>16}"


def classes(outcomes):
    """(grain, latency, form) → what run_truth.judge gave."""
    found = collections.defaultdict(list)
    for o in outcomes:
        if "failed" not in o:
            for form in FORMS:
                found[o["grain"], o["latency"], form].append(o[form])
    return found


def summary_lines(outcomes):
    yield f"{'class':24} {'cases':>5} {'error: median':>14} {'most':>9} {'within limit':>13} {'outside':>8} {'conditional':>12}"
    for key, judged in classes(outcomes).items():
        f = codes_bars.figures(judged, key[-1])
        yield (
            f"{' '.join(key):24} {f['cases']:5} {f['median']:13.2f}% {f['most']:8.2f}% {f['within']:12.1f}% {f['outside']:8} {f['conditional']:12}"
        )


def habit_lines(outcomes, habits):
    """What another recorder of the same runs changes, in percent of the true noise."""
    done = [o for o in outcomes if "failed" not in o]
    for habit, form in itertools.product(habits if done else [], FORMS):
        changes = {o["name"]: abs(fuzz_bars.change(o, form, habit)) for o in done}
        worst = max(changes, key=changes.get)
        beyond = sum(change > fuzz_bars.HABIT_PERCENT for change in changes.values())
        yield f"habit {habit}, {form}: more than {fuzz_bars.HABIT_PERCENT}% in {beyond} of {len(changes)}, most {changes[worst]:.2f}% ({worst})"


def missed(outcomes, name):
    """Of the set `name` of codes_bars.py, in words."""
    found = classes(outcomes)
    for key, limits in codes_bars.SETS[name].items():
        if found[key]:
            yield from (f"{' '.join(key)}: {text}" for text in codes_bars.missed(codes_bars.figures(found[key], key[-1]), limits))


def by_code(outcomes):
    """Markdown: one line for each code at each grain, errors in percent of the true noise for each latency."""
    latencies = sorted({o["latency"] for o in outcomes}, key=lambda text: float(text.removesuffix("us")))
    columns = [f"{form}, {latency}: median, most" for form in FORMS for latency in latencies]
    yield f"| code | grain | cases | slowdown | {' | '.join(columns)} | outside | conditional |"
    yield "|---|---|---|---|" + "---|" * (len(columns) + 2)
    groups = collections.defaultdict(list)
    for o in outcomes:
        if "failed" not in o:
            groups[o["pattern"], o["grain"]].append(o)
    for (code, grain), cases in groups.items():
        slowdowns = [o["slowdown_percent"] for o in cases]
        cells = [code, grain, str(len(cases)), f"{min(slowdowns):.0f}–{max(slowdowns):.0f} %"]
        for form, latency in itertools.product(FORMS, latencies):
            errors = [bars.effective_error(o[form]) for o in cases if o["latency"] == latency]
            cells.append(f"{statistics.median(errors):.2f} %, {max(errors):.2f} %" if errors else "-")
        judged = [o[form] for o in cases for form in FORMS]
        cells.append(f"{sum(map(codes_bars.outside, judged))} of {len(judged)}")
        cells.append(str(sum(j["conditional"] for j in judged)))
        yield "| " + " | ".join(cells) + " |"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = HERE.parent.parent / "build"
    parser.add_argument("--polter", default=build / "polter", help="default: %(default)s")
    parser.add_argument("--program", type=pathlib.Path, default=build / "test" / "truth" / "truth_program", help="default: %(default)s")
    parser.add_argument("--smpirun", default=shutil.which("smpirun"))
    parser.add_argument("--quick", action="store_true", help="the quick subset only")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases whose name matches; may be repeated")
    parser.add_argument("--habit", type=fuzz_truth.habits, default=[], metavar="NAME,…", help="also as other recorders write it, see fuzzing.md")
    parser.add_argument("--seed-offset", type=int, default=0, help="added to every seed: what is tuned to one seed is wrong")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", help="folder for traces (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep the traces")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--by-code", action="store_true", help="a summary as Markdown in place of lines")
    parser.add_argument("--bars", choices=codes_bars.SETS, help="exit 1 if one of these bars of codes_bars.py is missed")
    parser.add_argument("--remove", help="passed to the replay: an estimate that removes too little must miss")
    parser.add_argument("--estimator", choices=["replay", "local"], default="replay", help="local: a naive estimate that must miss")
    parser.add_argument("--expect-miss", action="store_true", help="exit 0 if the bars are missed")
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    if not options.smpirun:
        print("SKIP: SimGrid's smpirun is not installed (scripts/setup installs libsimgrid-dev)")
        return 77
    options.program = options.program.resolve()
    cases = list(expand(json.loads((HERE / "codes.json").read_text()), options.seed_offset))
    cases = [c for c in cases if not options.only or any(fnmatch.fnmatch(c["name"], pattern) for pattern in options.only)]
    cases = [c for c in cases if c["quick"] or not options.quick]
    if not cases:
        print("run_codes.py: no case matches", file=sys.stderr)
        return 2
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="codes-") as temporary:
        options.work = options.work or temporary
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            if not options.by_code:
                print(HEADER)
            for outcome in pool.map(lambda case: run(case, options), cases):
                outcomes.append(outcome)
                if not options.by_code:
                    print(line(outcome), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"schema": "polter.codes/1", "seed_offset": options.seed_offset, "cases": outcomes}, indent=1))
    failed = [o for o in outcomes if "failed" in o]
    print("\n".join(by_code(outcomes) if options.by_code else ["", *summary_lines(outcomes), *habit_lines(outcomes, options.habit)]))
    misses = list(missed(outcomes, options.bars)) if options.bars else []
    for text in misses:
        print(f"MISSED {text}")
    for o in failed:
        print(f"FAILED {o['name']}: {o['failed']}", file=sys.stderr)
    print(f"{len(outcomes)} cases, {len(failed)} failed; seed offset {options.seed_offset}")
    if options.expect_miss:
        return 0 if misses and not failed else 1
    return 1 if misses or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
