#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bars of polter quality on this machine, by hand and with the machine alone.

    machine_bars.py lammps|hpcc     6 sizes, --runs runs each, recorded in turn: each is estimated from the others. Then, on its own copy of
                                    the history, runs with a competitor on one rank's core: slower, because of it. Last, a quiet and a
                                    disturbed run of the largest size, followed while they run
"""
import json
import shutil
import statistics
import subprocess
import sys
import time

import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from machine import BUILD, MELT, arguments, measured, run, run_json  # noqa: E402

import polter_run  # noqa: E402  (found by machine)

INPUTS = pathlib.Path(__file__).resolve().parents[2] / "tracer/programs"
MPIRUN = ["mpirun.openmpi", "-n", 2, "--bind-to", "core"]
POLTER = BUILD / "polter"
SIZES = {"lammps": [10, 11, 13, 15, 17, 20], "hpcc": [400, 600, 800, 1000, 1250, 1500]}  # edge of the box, in cells of 4 atoms; order of the matrix
STEPS = 300
DISTURBED = 3  # of the middle sizes


def job(which, size, folder):
    """What --size says, the command, and the folder that it runs in."""
    here = folder / f"{which}{size}"
    here.mkdir(exist_ok=True)
    if which == "lammps":
        (here / "in.lj").write_text(MELT.format(edge=size, thermo=50, steps=STEPS), encoding="utf-8")
        return 4 * size**3, [*MPIRUN, "lmp", "-in", "in.lj", "-log", "none"], here
    text = (INPUTS / "hpccinf.txt").read_text(encoding="utf-8")
    (here / "hpccinf.txt").write_text(text.replace("120          Ns", f"{size}          Ns").replace("20           NBs", "64           NBs"), encoding="utf-8")
    return size, [*MPIRUN, "hpcc"], here


def recorded(which, size, history, pieces, name):
    number, command, here = job(which, size, pieces.folder)
    (here / "hpccoutf.txt").unlink(missing_ok=True)
    trace = pieces.folder / name
    run([POLTER, "run", "-q", "--record", history, "--size", number, "-o", trace, *command], cwd=here)
    shutil.rmtree(trace)
    return size


def judged(history, *options):
    return run_json([POLTER, "quality", "--json", *options, history])


def disturbed(which, size, history, pieces, name):
    """The verdict on a job beside a competitor, from the quiet ones."""
    copy = pieces.folder / f"{name}-history"
    shutil.copytree(history, copy, dirs_exist_ok=True)
    with polter_run.rival(1, 100):
        recorded(which, size, copy, pieces, name)
    return judged(copy)


def followed(which, size, history, pieces, name):
    """What polter quality --follow says of it. As users run it: measurements go before everything else, and here the job must not."""
    number, command, here = job(which, size, pieces.folder)
    trace = pieces.folder / name
    words = ["nice", "-n", "20", POLTER, "run", "-q", "-o", trace, *command]
    with subprocess.Popen([str(w) for w in words], cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=polter_run.ENVIRONMENT) as running:
        while not (trace / "ranks").is_dir() and running.poll() is None:
            time.sleep(0.005)
        lines = run(["nice", "-n", "20", POLTER, "quality", "--json", "--follow", trace, "--size", number, "--interval", "100ms", history]).splitlines()
    measured_s = run_json([POLTER, "replay", "--json", trace])["measured_ns"] * 1e-9
    shutil.rmtree(trace)
    return {"run_s": measured_s, "lines": [json.loads(line) for line in lines if line.startswith("{")]}


def beside(measure):
    with subprocess.Popen(["nice", "-n", "20", str(polter_run.PROGRAMS / "polter-rival"), "1", "100", "10000"]) as rival:
        try:
            return measure()
        finally:
            rival.kill()


def evaluate(which, runs, pieces):
    history = pieces.folder / "history"
    for i in range(runs):
        for size in SIZES[which]:
            pieces.get(f"{size}-{i}", lambda: recorded(which, size, history, pieces, f"run{size}-{i}"))
    slow = [pieces.get(f"disturbed-{i}", lambda: disturbed(which, SIZES[which][2 + i % 3], history, pieces, f"slow{i}")) for i in range(DISTURBED)]
    def live(name, around):
        return pieces.get(f"followed-{name}", lambda: around(lambda: followed(which, SIZES[which][-1], history, pieces, f"followed-{name}")))
    live_runs = {"quiet": live("quiet", lambda measure: measure()), "disturbed": live("disturbed", beside)}
    quiet = [judged(history, "--job", line.split()[0]) for line in run([POLTER, "quality", "--list", history]).splitlines()]
    errors = {}
    for one in quiet:
        errors.setdefault(int(one["job"]["size"]), []).append(one["difference"])
    for size, of in sorted(errors.items()):
        seconds = [one["job"]["runtime_ns"] * 1e-9 for one in quiet if one["job"]["size"] == size]
        print(f"{size:>8}: {statistics.median(seconds):6.2f} s ({min(seconds):.2f} to {max(seconds):.2f}); errors {' '.join(f'{100 * e:+.1f}' for e in of)} %")
    for model in quiet[-1]["models"]:
        error = model["left_out_error"]
        print(f"estimated from {model['inputs']}: median error {'too few jobs' if error is None else f'{100 * error:.1f} %'}, {model['components']} components")
    flagged = [one["verdict"] for one in quiet if one["verdict"] not in ("as expected", "no basis")]
    early = sum(any(p["verdict"] == "slower" for p in one["online"]["points"]) for one in quiet)
    print(f"quiet jobs flagged: {len(flagged)} of {len(quiet)} ({', '.join(flagged)}); as slower while they ran: {early}; by {quiet[-1]['online']['work']}")
    right, last = 0, lambda one: next((p for p in reversed(one["online"]["points"]) if p["run_time_from_rates_s"]), None)
    for one in slow:
        why = one["because"][0] if one["because"] else {"source": "nothing", "culprit": ""}
        first = next((p for p in one["online"]["points"] if p["verdict"] == "slower"), None)
        right += one["verdict"] == "slower" and (why["source"], why["culprit"]) == ("preempt", "polter-rival")
        print(f"beside a competitor: {one['verdict']} ({100 * one['difference']:+.0f} %), because {why['source']} by {why['culprit']}; "
              + (f"known after {first['elapsed_ns'] * 1e-9:.2f} of {one['job']['runtime_ns'] * 1e-9:.2f} s (usually {one['expected']['value']:.2f} s)"
                 if first else f"not known before its end ({one['online']['no_basis']})")
              + (f"; run time from rates until {last(one)['elapsed_ns'] * 1e-9:.2f} s: {last(one)['run_time_from_rates_s']:.2f} s" if last(one) else ""))
    for name, one in live_runs.items():
        slower = next((line for line in one["lines"] if line["now"]["verdict"] == "slower"), None)
        print(f"followed, {name}: {len(one['lines'])} looks in {one['run_s']:.2f} s; "
              + (f"slower after {slower['now']['elapsed_ns'] * 1e-9:.2f} s, because {slower['because'][0]['culprit'] if slower['because'] else 'nothing'}" if slower else "never called slower"))
    median = statistics.median(abs(one["difference"]) for one in quiet)
    return [(median <= 0.1, f"{which}: median error {100 * median:.1f} % (at most 10), {len(quiet)} jobs"),
            (len(flagged) <= 0.05 * len(quiet), f"{which}: quiet jobs flagged at their end: {len(flagged)} of {len(quiet)} (at most 5 %)"),
            (early <= 0.05 * len(quiet), f"{which}: quiet jobs ever called slower while they ran: {early} of {len(quiet)} (at most 5 %)"),
            (right == len(slow), f"{which}: slower, because preempt by polter-rival: {right} of {len(slow)}")]


def main():
    chosen = arguments(__doc__, ["lammps", "hpcc"], 5)
    return measured(chosen, lambda pieces: evaluate(chosen.which, chosen.runs, pieces))


if __name__ == "__main__":
    sys.exit(main())
