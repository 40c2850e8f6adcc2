# SPDX-License-Identifier: BSD-3-Clause
"""What tracing adds to real programs: LAMMPS and conjugate gradients (HPCG's computing and communication) on 2 ranks, untraced and traced
in turn; then single calls and the page."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable

import calls
import common

PARTS = ("lammps", "cg", "calls", "page")
FLAVOURS = ("openmpi", "mpich")


def loop_seconds(output: str) -> float:
    """LAMMPS's own time of its main loop: start-up and launcher are outside."""
    return float(re.search(r"Loop time of ([0-9.e+-]+)", output).group(1))


def rate(output: str) -> float:
    """That of bench_cg, whose line may stand among those of the launcher and of polter."""
    return next(json.loads(line)["gflop_per_s"] for line in output.splitlines() if line.startswith("{"))


def in_turn(rounds: int, command: list[str], exporter: str, figure: Callable[[str], float]) -> list[list[float]]:
    """Untraced, traced, untraced: the two untraced runs show how much the machine alone moves the figure."""
    return [[figure(common.run(command, traced, exporter)) for traced in (False, True, False)] for _ in range(rounds)]


def dilation(pairs: int, steps: int, exporter: str) -> dict[str, object]:
    lammps = [*common.mpirun("openmpi", 2), "lmp", "-in", str(common.ROOT / "scripts/melt.in"), "-var", "steps", str(steps), "-log", "none"]
    runs = in_turn(pairs, lammps, exporter, loop_seconds)
    ratios = [100 * (traced / ((before + after) / 2) - 1) for before, traced, after in runs]
    same = [100 * (after / before - 1) for before, _, after in runs]
    return {"percent": common.quartiles(ratios), "same_binary_twice_percent": common.quartiles(same), "pairs": pairs, "steps": steps}


def rate_lost(flavour: str, rounds: int, box: str, iterations: int, exporter: str) -> dict[str, object]:
    program = common.BUILD / "bench" / flavour / "bench_cg"
    if not program.exists():
        return {"not_measured": f"bench_cg is not built for {flavour}"}
    command = [*common.mpirun(flavour, 2), str(program), "--box", box, "--iterations", str(iterations)]
    runs = in_turn(rounds, command, exporter, rate)
    lost = [100 * (1 - traced / ((before + after) / 2)) for before, traced, after in runs]
    same = [100 * (1 - after / before) for before, _, after in runs]
    best_before, best_traced = (max(run[at] for run in runs) for at in (0, 1))
    return {
        "untraced_gflop_per_s": common.quartiles([untraced for before, _, after in runs for untraced in (before, after)]),
        "percent": common.quartiles(lost),
        "of_best_percent": round(100 * (1 - best_traced / best_before), 4),  # of as many runs each: other load only slows a run down
        "same_binary_twice_percent": common.quartiles(same),
        "rounds": rounds,
        "box": box,
        "iterations": iterations,
    }


def page(rounds: int) -> dict[str, object]:
    polterd = common.BUILD / "lib/polter/polterd"
    done = subprocess.run([common.BUILD / "bench/bench_exporter", polterd, str(rounds)], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 77):  # 77: no exporter here, so no page
        sys.exit(f"bench: bench_exporter ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout) if done.returncode == 0 else {"not_measured": done.stderr.strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=common.at_least_two, default=15, help="of LAMMPS runs, untraced and traced in turn")
    parser.add_argument("--steps", type=int, default=400, help="of LAMMPS")
    parser.add_argument("--cg-rounds", type=common.at_least_two, default=15, help="of conjugate gradients, untraced, traced, untraced")
    parser.add_argument("--cg-box", default="32,32,32", help="points of each rank (default: %(default)s)")
    parser.add_argument("--cg-iterations", type=int, default=800, help="in each run (default: %(default)s)")
    parser.add_argument("--cg-mpi", nargs="+", choices=FLAVOURS, default=FLAVOURS, help="default: both")
    parser.add_argument("--call-rounds", type=common.at_least_two, default=7, help="of single calls, untraced and traced in turn")
    parser.add_argument("--calls", type=int, default=5000, help="of each kind, 21 times over, in each round")
    parser.add_argument("--page-rounds", type=int, default=15)
    parser.add_argument("--exporter", default="auto")
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts alone")
    options = parser.parse_args()
    cg = (options.cg_rounds, options.cg_box, options.cg_iterations, options.exporter)
    measure = {
        "lammps": ("lammps_dilation", lambda: dilation(options.pairs, options.steps, options.exporter)),
        "cg": ("cg_rate_lost", lambda: {flavour: rate_lost(flavour, *cg) for flavour in options.cg_mpi}),
        "calls": ("call_ns", lambda: calls.measure(options.call_rounds, options.exporter, options.calls)),
        "page": ("page", lambda: page(options.page_rounds)),
    }
    result = {"schema": "polter.bench.overhead/1", "load_before": os.getloadavg()[0]}
    for part in options.only or PARTS:
        key, measured = measure[part]
        result[key] = measured()
    common.show(result)


if __name__ == "__main__":
    main()
