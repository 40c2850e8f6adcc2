# SPDX-License-Identifier: BSD-3-Clause
"""Events a second of the whole `polter replay` beside the bare OTF2 reader: on archives of real programs that are made here, on simulated
ones, on synthetic ones, and how time and memory grow with events and ranks. What cannot be made here is left out with its reason."""

import argparse
import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import common

BENCH = common.BUILD / "bench" / "bench_replay"
SIMULATED = common.BUILD / "test" / "truth" / "truth_program"
BARS = {"of_reading": 0.30, "of_reading_few_messages": 0.40, "allreduce_events_per_second": 1.5e6}
REAL = {
    "lammps": (["lmp", "-log", "none", "-screen", "none", "-in", str(common.ROOT / "scripts" / "melt.in"), "-var", "side", "3"], "lmp"),
    "hpcc": (["hpcc"], "hpcc"),
}
SIMULATIONS = {
    "stencil_64": ("stencil", "mixed", {"bytes": 4000}, 2000),
    "allreduce_64": ("allreduce", "mixed", {"bytes": 8}, 5000),
    "wavefront_64": ("wavefront", "mixed", {"bytes": 1000}, 400),
}


def measured(words: list[str]) -> dict[str, object]:
    done = subprocess.run([str(BENCH), *words], capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"bench: {BENCH} {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def record(name: str, steps: int, folder: Path) -> str | None:
    """Traces a real program into folder/NAME; says why where it cannot."""
    words, program = REAL[name]
    if not shutil.which(program):
        return f"{program} is not installed (scripts/setup installs it)"
    if name == "lammps":
        words = [*words, "-var", "steps", str(steps)]
    else:
        shutil.copy(common.ROOT / "test" / "tracer" / "programs" / "hpccinf.txt", folder / "hpccinf.txt")
    command = [str(common.POLTER), "run", "-q", "-o", str(folder / name), "--", *common.mpirun("openmpi", 2), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    return None if done.returncode == 0 else f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}"


def simulate(name: str, part: float, folder: Path) -> str | None:
    """The truth bench's program on SimGrid's machine; the recorder gives each noise event its place."""
    if not shutil.which("smpirun") or not SIMULATED.exists():
        return "no SimGrid (Debian: libsimgrid-dev, installed by scripts/setup)"
    truth = common.ROOT / "test" / "truth"
    spec = importlib.util.spec_from_file_location("machine", truth / "machine.py")
    simulator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(simulator)
    cases = json.loads((truth / "cases.json").read_text())
    pattern, noise, arguments, iterations = SIMULATIONS[name]
    words = ["--pattern", pattern, "--seed", "1", "--iterations", max(2, round(iterations * part))]
    words += [text for key, value in arguments.items() for text in ("--" + key, value)]
    words += [text for source in cases["noise"][noise] for text in ("--noise", source)]
    machine = simulator.Machine(cases["machines"]["cluster"], 64, folder / "machine", shutil.which("smpirun"), SIMULATED)
    try:
        machine.run([*words, "--detailed", folder / name])
    except simulator.Failed as error:
        return str(error)
    return None


def exponent(points: list[dict[str, object]], by: str, of: str) -> float | None:
    """The slope of a line through the logarithms: 1 is in proportion, 0 does not grow."""
    pairs = [(math.log(point[by]), math.log(point[of])) for point in points if point[of] > 0]
    if len({x for x, _ in pairs}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(pairs) for values in zip(*pairs))
    return round(sum((x - mean_x) * (y - mean_y) for x, y in pairs) / sum((x - mean_x) ** 2 for x, _ in pairs), 3)


def growth(by: str, values: list[int], fixed: list[str], rounds: int) -> dict[str, object]:
    points = []
    for value in values:
        one = measured(["--" + by, str(value), *fixed, "--rounds", str(rounds), "--brief"])
        points.append({by: value, **{key: one[key] for key in ("command_seconds", "command_of_reading", "peak_memory_mb")}})
        points[-1]["events"] = one["events"]
        points[-1]["nanoseconds_an_event"] = round(1e9 * one["command_seconds"] / one["events"], 1)
    of = ("command_seconds", "peak_memory_mb") if by == "events" else ("nanoseconds_an_event", "peak_memory_mb")
    return {"points": points, "exponents": {key: exponent(points, by, key) for key in of}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench replay", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the least of each counts (default: %(default)s)")
    parser.add_argument("--part", type=float, default=1, help="of the length of the archives, for a quick look (default: all of it)")
    parser.add_argument("--trace", action="append", default=[], metavar="DIR", help="measure this archive, too")
    parser.add_argument("--only", choices=("real", "simulated", "synthetic", "growth"), action="append", help="these parts alone")
    parser.add_argument("--most-ranks", type=int, default=1024, help="in the table of growth (default: %(default)s)")
    parser.add_argument("--launcher", default="mpirun.openmpi -n 2", help="for several processes (default: %(default)s); empty: none")
    arguments = parser.parse_args()
    parts = arguments.only or ["real", "simulated", "synthetic", "growth"]
    rounds = ["--rounds", str(arguments.rounds)]
    result: dict[str, object] = {"schema": "polter.bench.replay/1", "bars": BARS, "archives": {}}
    with tempfile.TemporaryDirectory(prefix="polter-bench-") as scratch:
        folder = Path(scratch)
        made = [(name, lambda name=name: record(name, round(40_000 * arguments.part), folder)) for name in REAL if "real" in parts]
        made += [(name, lambda name=name: simulate(name, arguments.part, folder)) for name in SIMULATIONS if "simulated" in parts]
        for name, make in made:
            why = make()
            result["archives"][name] = {"left_out": why} if why else measured(["--trace", str(folder / name), *rounds, "--brief"])
            shutil.rmtree(folder / name, ignore_errors=True)
    for trace in arguments.trace:
        result["archives"][trace] = measured(["--trace", trace, *rounds, "--brief"])
    if "synthetic" in parts:
        launcher = ["--launcher", arguments.launcher] if arguments.launcher else []
        result["synthetic"] = measured(["--events", str(round(10_000_000 * arguments.part)), *rounds, *launcher])
    if "growth" in parts:
        events = [round(count * arguments.part) for count in (1_000_000, 3_000_000, 10_000_000)]
        ranks = [count for count in (2, 8, 32, 128, 512, 1024) if count <= arguments.most_ranks]
        result["growth"] = {
            "events": growth("events", events, ["--ranks", "64"], 3),
            "ranks": growth("ranks", ranks, ["--events", str(events[1])], 3),
        }
    common.show(result)


if __name__ == "__main__":
    main()
