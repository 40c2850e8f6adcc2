#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bars of polter interference on this machine, by hand and with the machine alone.

    machine_bars.py bsp|lammps      interference injected into MPI calls, 0 to 40 %: accuracy of the estimates
    machine_bars.py rate            the same at 300 collectives a second: right, or warned
    machine_bars.py dilation        LAMMPS with and without polter run --profile, in turn: the median of its loop times
"""
import json
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from machine import BUILD, MELT, arguments, measured, run, run_json  # noqa: E402

MPIRUN = ["mpirun.openmpi", "-n", 2, "--bind-to", "core"]
BSP = BUILD / "lib/polter/polter-bsp-openmpi"
POLTER = BUILD / "polter"
HIT_SHARE = 0.2  # of the segments


def lammps(folder, steps):
    script = folder / "in.lj"
    script.write_text(MELT.format(edge=16, thermo=20, steps=steps), encoding="utf-8")
    return [*MPIRUN, "lmp", "-in", script, "-log", "none"]


def program(which, pieces):
    """Command, MPI calls a segment on both ranks together, length of a segment in ns. Of LAMMPS: of the segments in which it computes;
    a few short ones follow each, and have hardly any calls."""
    if which in ("bsp", "rate"):
        grain, phases = (10_000_000, 200) if which == "bsp" else (3_300_000, 600)

        def calibrate():
            run([*MPIRUN, BSP, "work", grain, 0, 20, 2, "allreduce", 0, 0, 0, pieces.folder / "calibrated"])
            return json.loads((pieces.folder / "calibrated").read_text(encoding="utf-8"))["units"]

        units = pieces.get("units", calibrate)
        return [*MPIRUN, BSP, "work", grain, units, phases, 2, "allreduce", 0, 0, 0, "/dev/null"], 2, grain
    command = lammps(pieces.folder, 1200)

    def first():
        """Each call that can be delayed is, by 1 ns: so the logs say how many there are."""
        trace = pieces.folder / "first"
        run([POLTER, "run", "-q", "-o", trace, "--delay", "mpi,probability=1,mean=1ns,sigma=0ns,seed=1", *command])
        estimate = run_json([POLTER, "interference", "--json", "--no-noise", trace])["runs"][0]
        delays = [json.loads((trace / f"delays.{rank}.jsonl").read_text(encoding="utf-8").splitlines()[0])["delays"] for rank in (0, 1)]
        long = max(estimate["groups"], key=lambda g: g["segments"] * g["median_ns"])["segments"]
        return [estimate["segments_ns"] / long, sum(delays) / long]

    segment, calls = pieces.get("segments", first)
    return command, calls, segment


def accuracy(which, runs, pieces):
    command, calls, segment = program(which, pieces)
    traces = []
    for i in range(runs):
        target = 0.4 * i / (runs - 1)
        probability, mean = 1 - (1 - HIT_SHARE) ** (1 / calls), target / (1 - target) * segment / HIT_SHARE
        delay = [] if i == 0 else ["--delay", f"mpi,probability={probability:.7f},mean={mean:.0f}ns,sigma={mean / 4:.0f}ns,seed={i}"]
        trace = pieces.folder / f"run{i}"
        pieces.get(f"run{i}-made", lambda: run([POLTER, "run", "-q", "-o", trace, *delay, *command])[-500:])
        traces.append(trace)
    result = run_json([POLTER, "interference", "--json", *traces])
    accuracies, warned = [], 0
    print(f"{'measured %':>10} {'estimated %':>11} {'over medians %':>14} {'accuracy':>8} {'rate':>6} {'unused %':>8} {'OS noise %':>10}")
    for one in result["runs"]:
        accuracies.append(one["measured"]["accuracy"])
        warned += any("collectives a second" in w for w in one["warnings"])
        noise = one["os_noise"]
        print(f"{one['measured']['interference']['value']:10.2f} {one['interference']['value']:11.2f} {one['interference_over_median']['value']:14.2f} {accuracies[-1]:8.3f}"
              f" {one['collectives']['value']:6.0f} {100 * one['unused']['ns'] / one['segments_ns']:8.1f} {100 * noise['accumulated_noise_ns'] / noise['measured_ns'] if noise else -1:10.1f}")
    median = statistics.median(accuracies)
    return [(median >= 0.9 or (which == "rate" and warned == runs),
             f"{which}: accuracy median {median:.3f} (at least 0.9), least {min(accuracies):.3f}; warned of the rate: {warned} of {runs}")]


def dilation(runs, pieces):
    command = lammps(pieces.folder, 600)

    def pair(i):
        def loop(words):
            return float(re.search(r"Loop time of ([\d.]+)", run(words)).group(1))

        profiled = [POLTER, "run", "--profile", "-o", pieces.folder / f"profile{i}", *command]
        times = [loop(words) for words in ((command, profiled) if i % 2 == 0 else (profiled, command))]
        return times if i % 2 == 0 else times[::-1]

    times = [pieces.get(f"pair{i}", lambda: pair(i)) for i in range(runs)]
    percent = [100 * (b / a - 1) for a, b in times]
    print(" ".join(f"{p:+.2f}" for p in percent))
    return [(statistics.median(percent) < 1, f"dilation by the profile: median {statistics.median(percent):+.2f} % of {runs} pairs (below 1 %)")]


def main():
    chosen = arguments(__doc__, ["bsp", "lammps", "rate", "dilation"], 15)
    evaluate = (lambda pieces: dilation(chosen.runs, pieces)) if chosen.which == "dilation" else (lambda pieces: accuracy(chosen.which, chosen.runs, pieces))
    return measured(chosen, evaluate)


if __name__ == "__main__":
    sys.exit(main())
