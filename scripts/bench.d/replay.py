# SPDX-License-Identifier: BSD-3-Clause
"""Events a second of the whole `polter replay` beside the bare OTF2 reader: on archives of real programs that are made here, on simulated
ones, on synthetic ones, and how time and memory grow with events, ranks, scenarios and processes. What cannot be made here is left out with
its reason."""

import argparse
import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import common

BENCH = common.BUILD / "bench" / "bench_replay"
SIMULATED = common.BUILD / "test" / "truth" / "truth_program"
BARS = {"of_reading": 0.30, "of_reading_few_messages": 0.40, "allreduce_events_per_second": 1.5e6}
# Other tools' figures, for comparison. They count differently: LogGOPSim operations of a schedule, Scalasca records of its own analysis.
# "measured": with these tools on 2 cores of 2.6 GHz; quote ratios, machines differ.
OTHERS = [
    {"tool": "LogGOPSim", "kind": "published", "events_per_second": "more than 1e6", "processors": 1,
     "source": "Hoefler, Schneider, Lumsdaine: LogGOPSim, HPDC 2010"},
    {"tool": "LogGOPSim", "kind": "measured", "events_per_second": [4.7e6, 6.8e6], "processors": 1, "ranks": [64, 1024], "noise": False},
    {"tool": "LogGOPSim", "kind": "measured", "events_per_second": [2.7e6, 4.3e6], "processors": 1, "ranks": [64, 1024], "noise": True},
    {"tool": "Scalasca", "kind": "published", "processes": "more than 1e6",
     "source": "Jülich Supercomputing Centre: description of Scalasca's trace analysis, pop-coe.eu"},
    {"tool": "Scalasca", "kind": "measured", "events_per_second": [0.45e6, 1.6e6], "processes": 2},
]
CG = common.BUILD / "bench" / "openmpi" / "bench_cg"
REAL: dict[str, Callable[[float], list[str]]] = {
    "lammps": lambda part: ["lmp", "-log", "none", "-screen", "none", "-in", str(common.ROOT / "scripts" / "melt.in"), "-var", "side", "3",
                            "-var", "steps", str(round(40_000 * part))],
    "hpcc": lambda part: ["hpcc"],
    "cg": lambda part: [str(CG), "--box", "16,16,16", "--iterations", str(max(1, round(20_000 * part)))],
}
SIMULATIONS = {
    "stencil_64": ("stencil", "mixed", {"bytes": 4000}, 2000, 64),
    "allreduce_64": ("allreduce", "mixed", {"bytes": 8}, 5000, 64),
    "wavefront_64": ("wavefront", "mixed", {"bytes": 1000}, 400, 64),
    "allreduce_1024": ("allreduce", "mixed", {"bytes": 8}, 200, 1024),  # half a minute of it sets up SimGrid's collectives
    # The master needs some microseconds for a task: with shorter ones all would wait for it. Cold: there are no collectives to set up.
    "farm_1024": ("master_worker", "mixed", {"bytes": 8, "compute-ns": 10_000_000, "cold": 1}, 100, 1024),
}
RANKS = (2, 8, 32, 128, 512, 1024, 2048, 4096)
EVENTS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
SOURCES = (1, 2, 4, 6, 8, 12)  # beyond 8, orders of removal are sampled
CALLS = ("--messages", "90", "--noise", "5")  # percent of the events: only they cost more with more scenarios
PROCESSES = (2, 4)  # beside one


def measured(words: list[str]) -> dict[str, object]:
    done = subprocess.run([str(BENCH), *words], capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"bench: {BENCH} {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def record(name: str, part: float, folder: Path) -> str | None:
    """Traces a real program into folder/NAME; says why where it cannot."""
    words = REAL[name](part)
    if not shutil.which(words[0]):
        return f"{words[0]} is not built" if words[0] == str(CG) else f"{words[0]} is not installed (scripts/setup installs it)"
    if name == "hpcc":
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
    pattern, noise, arguments, iterations, ranks = SIMULATIONS[name]
    words = ["--pattern", pattern, "--seed", "1", "--iterations", max(2, round(iterations * part))]
    words += [text for key, value in arguments.items() for text in ("--" + key, value)]
    words += [text for source in cases["noise"][noise] for text in ("--noise", source)]
    machine = simulator.Machine(cases["machines"]["cluster"], ranks, folder / "machine", shutil.which("smpirun"), SIMULATED)
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


def growth(by: str, values: list[int], fixed: list[str], rounds: int, along: str = "") -> dict[str, object]:
    """One archive for each value of --BY. `along`: the figure of the result that grows with it, where it is not the value itself."""
    points = []
    for value in values:
        one = measured(["--" + by, str(value), *fixed, "--rounds", str(rounds), "--brief"])
        kept = ("events", "command_seconds", "command_of_reading", "peak_memory_mb", *([along] if along else []))
        points.append({by: value, **{key: one[key] for key in kept}})
        points[-1]["nanoseconds_an_event"] = round(1e9 * one["command_seconds"] / one["events"], 1)
    of = ("command_seconds", "peak_memory_mb") if by == "events" else ("nanoseconds_an_event", "peak_memory_mb")
    return {"points": points, "exponents": {key: exponent(points, along or by, key) for key in of}}


def with_processes(launcher: str, trace: Path, rounds: int) -> list[dict[str, object]]:
    """Two processes that share the archive beside one; `left_to_one`: the command would not share it."""
    keys = ("processes", "seconds", "times_as_fast", "left_to_one")
    points = measured(["--launcher", f"{launcher} -n 2", "--trace", str(trace), "--rounds", str(rounds)])["points"]
    return [{key: point[key] for key in keys} for point in points]


def on_this_host(trace: Path, one: dict[str, object], rounds: int) -> dict[str, object]:
    """The command as it is called, on the clock: what it makes of this host's cores by itself, beside one process; least times."""
    ways = {"seconds": [], "one_process_seconds": ["--processes", "1"]}
    least = dict.fromkeys(ways, math.inf)
    for _ in range(rounds):
        for name, words in ways.items():
            begin = time.monotonic()
            subprocess.run([str(common.POLTER), "replay", "-q", "--json", *words, str(trace)], check=True, timeout=3600, stdout=subprocess.DEVNULL)
            least[name] = min(least[name], time.monotonic() - begin)
    read = one["events"] / one["read_events_per_second"]
    return {**least, "times_as_fast": least["one_process_seconds"] / least["seconds"], "of_reading": read / least["seconds"]}


def growth_with_processes(launcher: str, fixed: list[str], rounds: int) -> dict[str, object]:
    launchers = [word for count in PROCESSES for word in ("--launcher", f"{launcher} -n {count}")]
    points = measured([*launchers, *fixed, "--rounds", str(rounds)])["points"]
    return {"points": points, "exponents": {key: exponent(points, "processes", key) for key in ("seconds", "peak_memory_mb")}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench replay", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; the least of each counts (default: %(default)s)")
    parser.add_argument("--part", type=float, default=1, help="of the length of the archives, for a quick look (default: all of it)")
    parser.add_argument("--trace", action="append", default=[], metavar="DIR", help="measure this archive, too")
    parser.add_argument("--only", choices=("real", "simulated", "synthetic", "growth"), action="append", help="these parts alone")
    parser.add_argument("--most-ranks", type=int, default=4096, help="in simulations and in the table of growth (default: %(default)s)")
    parser.add_argument("--most-events", type=int, default=10_000_000, help="in the table of growth, up to 10^8 (default: %(default)s)")
    parser.add_argument("--most-sources", type=int, default=12, help="in the table of growth with scenarios (default: %(default)s)")
    parser.add_argument("--launcher", default="mpirun.openmpi --oversubscribe",
                        help="for several processes, completed by -n N (default: %(default)s); empty: none")
    arguments = parser.parse_args()
    parts = arguments.only or ["real", "simulated", "synthetic", "growth"]
    rounds = ["--rounds", str(arguments.rounds)]
    result: dict[str, object] = {"schema": "polter.bench.replay/1", "bars": BARS, "other_tools": OTHERS, "archives": {}}
    with tempfile.TemporaryDirectory(prefix="polter-bench-") as scratch:
        folder = Path(scratch)
        made = [(name, lambda name=name: record(name, arguments.part, folder)) for name in REAL if "real" in parts]
        made += [(name, lambda name=name: simulate(name, arguments.part, folder))
                 for name, (*_, ranks) in SIMULATIONS.items() if "simulated" in parts and ranks <= arguments.most_ranks]
        for name, make in made:
            why = make()
            result["archives"][name] = {"left_out": why} if why else measured(["--trace", str(folder / name), *rounds, "--brief"])
            if not why:
                result["archives"][name]["on_this_host"] = on_this_host(folder / name, result["archives"][name], arguments.rounds)
            if not why and arguments.launcher:
                result["archives"][name]["together"] = with_processes(arguments.launcher, folder / name, min(3, arguments.rounds))
            shutil.rmtree(folder / name, ignore_errors=True)
    for trace in arguments.trace:
        result["archives"][trace] = measured(["--trace", trace, *rounds, "--brief"])
        result["archives"][trace]["on_this_host"] = on_this_host(Path(trace), result["archives"][trace], arguments.rounds)
    if "synthetic" in parts:
        result["synthetic"] = measured(["--events", str(round(10_000_000 * arguments.part)), *rounds])
    if "growth" in parts:
        events = [round(count * arguments.part) for count in EVENTS if count <= max(arguments.most_events, EVENTS[0])]
        some, fewer = ["--events", str(round(3_000_000 * arguments.part))], min(3, arguments.rounds)
        result["growth"] = {
            "events": growth("events", events, ["--ranks", "64"], fewer),
            "ranks": growth("ranks", [count for count in RANKS if count <= arguments.most_ranks], some, fewer),
            "scenarios": growth("sources", [count for count in SOURCES if count <= arguments.most_sources], [*some, *CALLS], fewer, "scenarios"),
        }
        if arguments.launcher:
            result["growth"]["processes"] = growth_with_processes(arguments.launcher, ["--events", str(max(events))], fewer)
    common.show(result)


if __name__ == "__main__":
    main()
