#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter predict on the simulator, where the truth is known: one run on few ranks predicts several runs, with other noise, on more ranks.

Error: the predicted accumulated noise against the median of the true ones. Coverage: how many of them lie inside the interval.
--mutated compares with the measured ranks' accumulated noise instead of the prediction, which must miss the bars."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "truth"))
import machine  # noqa: E402

MACHINE = {"bandwidth": "10GBps", "latency": "0.5us"}
NOISE = {
    "random": ["irq:random:period=10000000,duration=100000"],
    "periodic": ["timer:periodic:period=4000000,duration=50000"],
    "both": ["timer:periodic:period=1000000,duration=4000", "softirq:random:period=5000000,duration=20000", "irq:random:period=20000000,duration=150000"],
}
PROGRAMS = {  # arguments; largest error in percent; each rank's time without noise depends on its seed only a little
    "allreduce": ({"iterations": 100}, 15),
    "stencil": ({"iterations": 100, "bytes": 4000}, 15),
    "wavefront": ({"iterations": 20, "bytes": 1000}, 25),
}


def faults(value):
    """Where a result differs from its schema; nothing is checked without python3-jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return []
    schema = json.loads((pathlib.Path(__file__).parents[3] / "docs/predict.schema.json").read_text(encoding="utf-8"))
    return [error.message[:200] for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def simulate(options, folder, pattern, ranks, noise, seed, trace=None):
    """Accumulated noise in the simulated truth."""
    simulated = machine.Machine(MACHINE, ranks, folder, shutil.which("smpirun"), options.program, timeout=1200)
    common = ["--pattern", pattern, "--seed", seed]
    for key, value in PROGRAMS[pattern][0].items():
        common += [f"--{key}", max(4, round(value * options.length)) if key == "iterations" else value]
    noisy = simulated.run(common + [text for source in NOISE[noise] for text in ("--noise", source)] + (["--detailed", trace] if trace else []))
    quiet = simulated.run(common + ["--quiet"])
    return {"noise": noisy["runtime_ns"] - quiet["runtime_ns"], "quiet": quiet["runtime_ns"]}


def predict(options, trace, ranks, more=()):
    command = [options.polter, "predict", "--json", "-q", str(trace), "--ranks", str(ranks), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"polter predict failed: {done.stderr}")
    result = json.loads(done.stdout)
    if faults(result):
        sys.exit(f"the result differs from its schema: {faults(result)}")
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polter", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--measured", type=int, default=64)
    parser.add_argument("--ranks", default="256,1024")
    parser.add_argument("--patterns", default=",".join(PROGRAMS))
    parser.add_argument("--noises", default=",".join(NOISE))
    parser.add_argument("--runs", type=int, default=5, help="Of the larger number of ranks, each with other noise")
    parser.add_argument("--length", type=float, default=1, help="Factor of the number of iterations")
    parser.add_argument("--coverage", type=float, default=0.9, help="Least share of the true values inside of the intervals")
    parser.add_argument("--bar", type=float, help="Largest error in percent, in the place of each program's")
    parser.add_argument("--mutated", action="store_true", help="The measured answer in the place of the prediction: bars must be missed")
    options = parser.parse_args()
    sizes = [int(size) for size in options.ranks.split(",")]
    missed, inside, all_runs = [], 0, 0
    print(f"{'case':<24} {'ranks':>5} {'true ms':>9} {'told ms':>9} {'from':>9} {'to':>9} {'error %':>8} {'quiet %':>8} {'inside':>7} basis")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for pattern in options.patterns.split(","):
            for noise in options.noises.split(","):
                trace = folder / "trace"
                shutil.rmtree(trace, ignore_errors=True)
                simulate(options, folder, pattern, options.measured, noise, 1, trace)
                same = predict(options, trace, options.measured, ["--as-recorded"])
                told, own = same["predictions"][0], same["measured"]
                if told["accumulated_noise"]["value"] != own["accumulated_noise_ns"] or told["run_time_without_noise_ns"] != own["run_time_without_noise_ns"]:
                    missed.append(f"{pattern} {noise}: for the measured ranks {told['accumulated_noise']['value']} ns, the replay says {own['accumulated_noise_ns']} ns")
                result = predict(options, trace, options.ranks)
                for size, told in zip(sizes, result["predictions"]):
                    runs = [simulate(options, folder, pattern, size, noise, 10 + seed) for seed in range(options.runs)]
                    true, quiet = statistics.median(run["noise"] for run in runs), statistics.median(run["quiet"] for run in runs)
                    value = own["accumulated_noise_ns"] if options.mutated else told["accumulated_noise"]["value"]
                    low, high = told["accumulated_noise"]["interval"]
                    covered = sum(low <= run["noise"] <= high for run in runs)
                    inside, all_runs = inside + covered, all_runs + len(runs)
                    error = 100 * (value / true - 1)
                    bar = options.bar or PROGRAMS[pattern][1]
                    if abs(error) > bar:
                        missed.append(f"{pattern} {noise} {size}: error {error:.1f} %, allowed {bar} %")
                    print(
                        f"{pattern + ' ' + noise:<24} {size:5} {true / 1e6:9.3f} {value / 1e6:9.3f} {low / 1e6:9.3f} {high / 1e6:9.3f} {error:8.1f} "
                        f"{100 * (told['run_time_without_noise_ns'] / quiet - 1):8.2f} {covered:3}/{len(runs)} {told['basis']} {'; '.join(told['no_basis_because'])}",
                        flush=True,
                    )
    print(f"{inside} of {all_runs} runs inside of their interval")
    if inside < options.coverage * all_runs:
        missed.append(f"{inside} of {all_runs} inside, less than {100 * options.coverage:.0f} %")
    for line in missed:
        print("MISSED", line)
    if options.mutated:
        sys.exit(0 if any("error" in line for line in missed) else "the measured answer passed for a prediction")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
