#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter predict on the simulator, where the truth is known: runs on few ranks predict runs, with other noise, on more ranks.

Each of several traces, whose noise differs, gives a prediction. Error: the median of the predicted accumulated noise against the median of
the true one. Coverage: how many of the true runs lie inside of the predictions' intervals. --mutated compares with the measured ranks'
accumulated noise in the place of the prediction, which must miss the bars."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("", "truth")]
import machine  # noqa: E402
import schemas  # noqa: E402

# Named algorithms: the selector's set up communicators of leaders first, by n * n messages, which took 20 minutes with 1024 ranks.
ALGORITHMS = {"bcast": "binomial_tree", "allreduce": "rdb", "reduce": "binomial"}
MACHINE = {"bandwidth": "10GBps", "latency": "0.5us", "algorithms": ALGORITHMS}
NOISE = {
    "random": ["irq:random:period=2000000,duration=30000"],
    "rare": ["irq:random:period=10000000,duration=100000"],
    "periodic": ["timer:periodic:period=4000000,duration=50000"],
    "both": ["timer:periodic:period=1000000,duration=4000", "softirq:random:period=5000000,duration=20000", "irq:random:period=20000000,duration=150000"],
}
PROGRAMS = {  # arguments; largest error in percent
    "allreduce": ({"iterations": 60}, 15),
    "stencil": ({"iterations": 60, "bytes": 4000}, 15),
    "wavefront": ({"iterations": 20, "bytes": 1000}, 25),
}


def simulate(options, folder, pattern, ranks, noise, seed, trace=None):
    """Run time of a simulated run. The seed decides the computing, too: a run's truth is the one without noise of the same seed."""
    simulated = machine.Machine(MACHINE, ranks, folder, shutil.which("smpirun"), options.program, timeout=3000)
    arguments = ["--pattern", pattern, "--seed", seed]
    for key, value in PROGRAMS[pattern][0].items():
        arguments += [f"--{key}", max(4, round(value * options.length)) if key == "iterations" else value]
    if noise is None:
        arguments += ["--quiet"]
    for source in NOISE.get(noise, []):
        arguments += ["--noise", source]
    return simulated.run(arguments + (["--detailed", trace] if trace else []))["runtime_ns"]


def traced(options, folder, pattern, noise, seed, sizes, missed):
    """The predictions of one trace for all sizes, and what was measured. With the recorded noise on the measured ranks it is the replay's answer."""
    trace = folder / "trace"
    shutil.rmtree(trace, ignore_errors=True)
    simulate(options, folder, pattern, options.measured, noise, seed, trace)
    same = predict(options, trace, options.measured, ["--as-recorded"])
    predicted, own = same["predictions"][0], same["measured"]
    for value, key in ((predicted["accumulated_noise"]["value"], "accumulated_noise_ns"), (predicted["run_time_without_noise_ns"], "run_time_without_noise_ns")):
        if value != own[key]:
            missed.append(f"{pattern} {noise} {seed}: for the measured ranks {key} is {value}, the replay says {own[key]}")
    return predict(options, trace, ",".join(map(str, sizes)))


def predict(options, trace, ranks, more=()):
    command = [options.polter, "predict", "--json", "-q", str(trace), "--ranks", str(ranks), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"polter predict failed: {done.stderr}")
    result = json.loads(done.stdout)
    if schemas.faults("predict", result):
        sys.exit(f"the result differs from its schema: {schemas.faults('predict', result)}")
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polter", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--measured", type=int, default=64)
    parser.add_argument("--ranks", default="256,1024")
    parser.add_argument("--patterns", default=",".join(PROGRAMS))
    parser.add_argument("--noises", default="random,periodic,both")
    parser.add_argument("--traces", type=int, default=3, help="Of the measured number of ranks, each with other noise")
    parser.add_argument("--runs", default="12,3", help="Of each larger number of ranks, each with other noise: few long events can decide a run")
    parser.add_argument("--length", type=float, default=1, help="Factor of the number of iterations")
    parser.add_argument("--coverage", type=float, default=0.9, help="Least share of the true values inside of the intervals")
    parser.add_argument("--bar", type=float, help="Largest error in percent, in the place of each program's")
    parser.add_argument("--mutated", action="store_true", help="The measured answer in the place of the prediction: bars must be missed")
    options = parser.parse_args()
    sizes = [int(size) for size in options.ranks.split(",")]
    seeds = {size: range(100, 100 + int(runs)) for size, runs in zip(sizes, options.runs.split(","), strict=True)}
    missed, inside, all_runs, cases, without_basis = [], 0, 0, 0, 0
    print(f"{'case':<20} {'ranks':>5} {'true ms':>9} {'pred. ms':>9} {'from':>9} {'to':>9} {'error %':>8} {'worst %':>8} {'quiet %':>8} {'inside':>7} basis")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        quiet = {}
        for pattern in options.patterns.split(","):
            for size in sizes:
                quiet[pattern, size] = [simulate(options, folder, pattern, size, None, seed) for seed in seeds[size]]
            bar = options.bar or PROGRAMS[pattern][1]
            for noise in options.noises.split(","):
                results = [traced(options, folder, pattern, noise, 1 + seed, sizes, missed) for seed in range(options.traces)]
                for at, size in enumerate(sizes):
                    runs = [simulate(options, folder, pattern, size, noise, seed) - without for seed, without in zip(seeds[size], quiet[pattern, size])]
                    cases += 1
                    reasons = "; ".join(sorted({reason for result in results for reason in result["predictions"][at]["no_basis_because"]}))
                    pairs = [(result["measured"], result["predictions"][at]) for result in results if result["predictions"][at]["basis"]]
                    if not pairs:
                        without_basis += 1
                        print(f"{pattern + ' ' + noise:<20} {size:5} {statistics.median(runs) / 1e6:9.3f} no basis: {reasons}", flush=True)
                        continue
                    predicted = [t for _, t in pairs]
                    values = [own["accumulated_noise_ns"] if options.mutated else t["accumulated_noise"]["value"] for own, t in pairs]
                    ends = [t["accumulated_noise"]["interval"] for t in predicted]
                    covered = sum(low <= run <= high for run in runs for low, high in ends)
                    inside, all_runs = inside + covered, all_runs + len(runs) * len(predicted)
                    true = statistics.median(runs)
                    error, worst = 100 * (statistics.median(values) / true - 1), max((100 * (value / true - 1) for value in values), key=abs)
                    if abs(error) > bar:
                        missed.append(f"{pattern} {noise} {size}: error {error:.1f} %, allowed {bar} %")
                    print(
                        f"{pattern + ' ' + noise:<20} {size:5} {true / 1e6:9.3f} {statistics.median(values) / 1e6:9.3f} {statistics.median(e[0] for e in ends) / 1e6:9.3f} "
                        f"{statistics.median(e[1] for e in ends) / 1e6:9.3f} {error:8.1f} {worst:8.1f} "
                        f"{100 * (predicted[0]['run_time_without_noise_ns'] / statistics.median(quiet[pattern, size]) - 1):8.2f} {covered:3}/{len(runs) * len(predicted)} "
                        f"{len(predicted)}/{len(results)} {reasons}",
                        flush=True,
                    )
    print(f"{inside} of {all_runs} runs inside of their interval")
    if 2 * without_basis > cases:
        missed.append(f"no basis in {without_basis} of {cases} cases")
    if inside < options.coverage * all_runs:
        missed.append(f"{inside} of {all_runs} inside, fewer than {100 * options.coverage:.0f} %")
    for line in missed:
        print("MISSED", line)
    if options.mutated:
        sys.exit(0 if any("error" in line for line in missed) else "the measured answer passed for a prediction")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
