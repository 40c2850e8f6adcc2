#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random MPI programs against the truth: what run_truth.py does with written programs, this does with programs drawn from a seed.

    test/truth/fuzz_truth.py --seeds 1-50                     a line for each program, and a summary by class
    test/truth/fuzz_truth.py --by-kind --only 'graph*'        programs of one kind of phase each: a table by kind
    test/truth/fuzz_truth.py --seeds 17 --keep --work DIR     leaves DIR/17/{events,counters,quiet}/traces.otf2, case.json, program.txt
    test/truth/fuzz_truth.py --shrink 17                      the smallest program that fails like seed 17

Exit code: 0 all well, 1 a bar of --bars was missed or something failed, 2 wrong usage, 77 cannot run here.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import pathlib
import shutil
import sys
import tempfile

import fuzz_bars
import fuzz_report
import random_program
import run_truth
import shrink
from machine import Failed, Machine, SimulatorFailed

HERE = pathlib.Path(__file__).resolve().parent
FOUND = HERE / "found"
HABITS = ("inside", "ticks", "plain", "requests_at_leave", "collective_at_enter", "collective_at_leave")  # recorder/habits.hpp


def run_case(case, options, name=None):
    """Simulates and replays one case of random_program.py."""
    name = name or case.get("name") or str(case["seed"])
    folder = pathlib.Path(options.work) / name
    shutil.rmtree(folder, ignore_errors=True)
    outcome = {"name": name, "case": case, "dependencies": random_program.dependencies(case), "open": case.get("open", False)}
    try:
        machine = Machine(case["machine"], case["ranks"], folder, options.smpirun, options.program, options.timeout)
        (folder / "case.json").write_text(json.dumps(case, indent=1))
        (folder / "program.txt").write_text(random_program.program_text(case))
        arguments = ["--program", folder / "program.txt", "--seed", case["seed"]]
        arguments += [text for key, value in case["overheads"].items() for text in (f"--{key}", value)]
        arguments += [text for source in case["noise"] for text in ("--noise", source)]
        outcome |= run_truth.compare(machine, arguments, folder, options, options.habit)
        for form in fuzz_report.FORMS:
            outcome[form]["true_percent_of_runtime"] = outcome["slowdown_percent"]
    except Failed as error:
        outcome |= {"failed": str(error), "simulator": isinstance(error, SimulatorFailed)}
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def run_all(cases, options):
    """In the order of `cases`, each as soon as it and those before it are done."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(lambda case: run_case(case, options), cases)


def wishes(options, **others):
    given = {"ranks": options.ranks, "kinds": options.kinds, "repeat": options.repeat, "latency_us": options.latency_us}
    given |= {"heavy": options.heavy, "size": options.size}
    return random_program.Wishes(**given | others)


def cases_by_kind(options):
    for kind in options.kinds or random_program.KINDS:
        for ranks in (4, 16):
            for latency in (1, 20):
                for seed in options.seeds:
                    case = random_program.kind_case(kind, seed, wishes(options, ranks=(ranks, ranks), latency_us=latency))
                    yield case | {"name": f"{kind}-{ranks}-{latency}us-{seed}", "kind": kind}


def found_cases():
    for file in sorted(FOUND.glob("*.json")):
        yield json.loads(file.read_text()) | {"name": file.stem}


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def ranks(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def kinds(text):
    matching = [kind for pattern in text.split(",") for kind in fnmatch.filter(random_program.KINDS, pattern)]
    if not matching:
        raise argparse.ArgumentTypeError(f"no kind of phase matches {text}")
    return matching


def habits(text):
    names = HABITS if text == "all" else text.split(",")
    if not set(names) <= set(HABITS):
        raise argparse.ArgumentTypeError(f"no habit {text}")
    return list(names)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = HERE.parent.parent / "build"
    parser.add_argument("--polter", default=build / "polter", help="default: %(default)s")
    parser.add_argument("--program", default=build / "test" / "truth" / "truth_program", help="default: %(default)s")
    parser.add_argument("--smpirun", default=shutil.which("smpirun"))
    parser.add_argument("--seeds", type=seeds, metavar="A-B", help="default: 1-20; with --by-kind 1-3")
    parser.add_argument("--count", type=int, help="that many seeds from the first one on")
    parser.add_argument("--ranks", type=ranks, default=(4, 64), metavar="A-B", help="default: 4-64")
    parser.add_argument("--kinds", type=kinds, default=[], metavar="PATTERN,…", help="only these kinds of phases")
    parser.add_argument("--visible", action="store_true", help="only kinds with visible dependencies")
    parser.add_argument("--once", dest="repeat", action="store_const", const="once", default="both", help="no phase in a loop")
    parser.add_argument("--loop", dest="repeat", action="store_const", const="loop", help="each phase in a loop")
    parser.add_argument("--latency-us", type=float, help="default: random, 0.5 to 20")
    parser.add_argument("--heavy", action="store_const", const=True, help="long messages, also on slow networks; default: some programs")
    parser.add_argument("--light", dest="heavy", action="store_const", const=False, help="no long messages")
    parser.add_argument("--size", type=float, default=1, help="of a program, relative: how often its loops repeat")
    parser.add_argument("--habit", type=habits, default=[], metavar="NAME,…", help=f"also as other recorders write it: all, {', '.join(HABITS)}")
    parser.add_argument("--by-kind", action="store_true", help="programs of one kind each, 4 and 16 ranks, latency 1 and 20 us")
    parser.add_argument("--found", action="store_true", help="also the cases in found/")
    parser.add_argument("--case", type=pathlib.Path, action="append", default=[], help="a case from a file in place of seeds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one simulation; default: %(default)s")
    parser.add_argument("--work", help="folder for traces (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep the traces")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bars", choices=fuzz_bars.SETS, help="exit 1 if one of these bars of fuzz_bars.py is missed")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make the program of this seed (or of --case) smaller while it fails")
    parser.add_argument("--runs", type=int, default=250, help="simulations of --shrink, at most; default: %(default)s")
    parser.add_argument("--to", type=pathlib.Path, metavar="DIR", help="where --shrink writes the case; default: the screen")
    parser.add_argument("--remove", help="passed to the replay: an estimate that removes too little must miss")
    parser.add_argument("--estimator", choices=["replay", "local"], default="replay", help="local: a naive estimate that must miss")
    parser.add_argument("--expect-miss", action="store_true", help="exit 0 if the bars are missed, 1 if they are held")
    options = parser.parse_args(argv)
    if options.shrink is not None:
        options.seeds = range(options.shrink, options.shrink + 1)
    options.seeds = options.seeds or (range(1, 4) if options.by_kind else range(1, 21))
    if options.count:
        options.seeds = range(options.seeds[0], options.seeds[0] + options.count)
    if options.visible:
        options.kinds = [kind for kind in options.kinds or random_program.VISIBLE if kind in random_program.VISIBLE]
    return options


def cases_of(options):
    if options.case:
        return [json.loads(file.read_text()) | {"name": file.stem} for file in options.case]
    if options.by_kind:
        return list(cases_by_kind(options))
    return [random_program.random_case(seed, wishes(options)) for seed in options.seeds] + (list(found_cases()) if options.found else [])


def run(options):
    if options.shrink is not None:
        return shrink.main(cases_of(options)[0], options, run_case)
    outcomes = []
    if not options.json:
        print(fuzz_report.HEADER)
    for outcome in run_all(cases_of(options), options):
        outcomes.append(outcome)
        if not options.json:
            print(fuzz_report.line(outcome), flush=True)
    missed = fuzz_report.missed(outcomes, options.bars, options.habit) if options.bars else []
    if options.json:
        print(json.dumps({"schema": "polter.truth-fuzz/1", "summary": fuzz_report.summary(outcomes), "missed": missed, "cases": outcomes}, indent=1))
    else:
        print("\n" + "\n".join(fuzz_report.by_kind(outcomes) if options.by_kind else fuzz_report.summary_lines(outcomes)))
        for text in [*fuzz_report.habit_lines(outcomes, options.habit), *(f"MISSED {text}" for text in missed)]:
            print(text)
    failed = any("failed" in o and not o["simulator"] for o in outcomes)
    if options.expect_miss:
        return 0 if missed and not failed else 1
    return 1 if missed or failed else 0


def main(argv):
    options = parse(argv)
    if not options.smpirun:
        print("SKIP: SimGrid's smpirun is not installed (scripts/setup installs libsimgrid-dev)")
        return 77
    for needed in (options.polter, options.program):
        if not pathlib.Path(needed).exists():
            print(f"fuzz_truth.py: {needed} is not there; build it, or say where it is with --polter and --program", file=sys.stderr)
            return 1
    options.program = pathlib.Path(options.program).resolve()
    with tempfile.TemporaryDirectory(prefix="truth-fuzz-") as temporary:
        options.work = options.work or temporary
        return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
