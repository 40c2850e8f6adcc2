#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bars of polter latency on this machine, by hand and with the machine alone: two ranks on one node.

    machine_bars.py clock           how quiet the clock is, and what a sample costs
    machine_bars.py preempted       in turn quiet and with 1 % of one rank's CPU taken by polter inject in pieces of 2 ms: share of the time
                                    and length of what the tail has more at such lengths, and the least latency
"""
import math
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from machine import BUILD, arguments, measured, run_json  # noqa: E402

LENGTH_NS, SHARE, CYCLES = 2_000_000, 0.01, 80
POLTER = BUILD / "polter"


def measure(cycles):
    result = run_json([POLTER, "latency", "--json", "--trials", 200_000, "--warmups", 1_000, "--cycles", cycles, "--mpi", "openmpi"])
    one_sided = result["distributions"]["on_node"]["one_sided"]
    histogram = one_sided["histogram"]
    per_e = histogram["bins"] / math.log(histogram["top_ns"] / histogram["width_ns"])
    lengths = [(histogram["width_ns"] * math.exp((bin + 0.5) / per_e) - one_sided["median_ns"], count) for bin, count in histogram["counts"]]
    near = [(length, count * length) for length, count in lengths if abs(math.log(max(length, 1) / LENGTH_NS)) < 0.15]
    time_ns, below, middle = sum(t for _, t in near), 0, 0
    for middle, part in near:
        below += part
        if below >= time_ns / 2:
            break
    return {"quiet": result["clock"]["quiet_share"], "tick": result["clock"]["least_ns"], "own": result["clock"]["own_cost"]["value"],
            "share": time_ns / (histogram["samples"] * histogram["mean_ns"]), "length": middle,
            "least": result["distributions"]["on_node"]["pairwise_minima"]["median_ns"], "tail": result["tails"]["on_node"]["share_of_time"],
            "modes": [(m["length_ns"], m["share_of_time"]) for m in result["tails"]["on_node"]["modes"]]}


def disturbed():
    spec = f"periodic,period={LENGTH_NS / SHARE:.0f}ns,load={100 * SHARE:.0f}%,cpus=1"
    with subprocess.Popen([POLTER, "inject", "-q", "--seconds", "300", spec], stdout=subprocess.DEVNULL) as injector:
        time.sleep(0.5)
        result = measure(CYCLES)
        injector.terminate()
    return result


def median(results, key):
    return statistics.median(r[key] for r in results)


def clock(runs, pieces):
    quiet = [pieces.get(f"clock{i}", lambda: measure(5)) for i in range(runs)]
    print(" ".join(f"{100 * r['quiet']:.3f}%/{r['own']:.1f}ns" for r in quiet))
    return [(median(quiet, "quiet") >= 0.999, f"pairs of readings below 50 ns: {100 * median(quiet, 'quiet'):.3f} % (at least 99.9)"),
            (median(quiet, "own") <= 20, f"own cost: {median(quiet, 'own'):.1f} ns a sample (at most 20)")]


def preempted(runs, pieces):
    quiet, noisy = [], []
    for i in range(runs):
        quiet.append(pieces.get(f"quiet{i}", lambda: measure(CYCLES)))
        noisy.append(pieces.get(f"disturbed{i}", disturbed))
    share, length = median(noisy, "share") - median(quiet, "share"), median(noisy, "length")
    least = median(noisy, "least"), median(quiet, "least")
    for name, results in (("quiet", quiet), ("disturbed", noisy)):
        print(name, " ".join(f"{100 * r['share']:.3f}%/{r['length'] / 1e3:.0f}us/{r['least']:.0f}ns (tail {100 * r['tail']:.1f}%)" for r in results))
    return [(abs(share / SHARE - 1) <= 0.05, f"tail: {100 * share:.4f} % of the time for {100 * SHARE:.0f} % (within 5 %)"),
            (abs(length / LENGTH_NS - 1) <= 0.05, f"its length: {length / 1e3:.1f} us for {LENGTH_NS / 1e3:.0f} us (within 5 %)"),
            (abs(least[0] - least[1]) <= max(0.02 * least[1], median(quiet, "tick")),
             f"least of a block: {least[0]:.1f} ns disturbed, {least[1]:.1f} ns quiet (within 2 %, a bin, or a tick of the counter)")]


def main():
    chosen = arguments(__doc__, ["clock", "preempted"], 5)
    return measured(chosen, lambda pieces: (clock if chosen.which == "clock" else preempted)(chosen.runs, pieces))


if __name__ == "__main__":
    sys.exit(main())
