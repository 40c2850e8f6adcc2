# SPDX-License-Identifier: BSD-3-Clause
"""How much later things begin and end: MPI_Init to MPI_Finalize in each rank, `polter run` around a job that does nothing else,
`polter noise`, and Ctrl-C in it. Untraced and with each exporter in turn. --hosts 2,16,64: instead, what the comparison of clocks adds to
jobs of so many ranks that each pass for a host, by datagrams and by MPI, against the same job on one host. All of them share the CPUs of
this machine: `cpu` over the number of ranks is what a host of its own would spend."""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

EXPORTERS = ("none", "perf", "bpf")


def spread(values: list[float]) -> dict[str, float]:
    return {"least": round(min(values), 4), **common.quartiles(values)}


def available(exporter: str) -> bool:
    if exporter == "none":
        return True
    with tempfile.TemporaryDirectory(prefix="polter-bench-") as scratch:
        words = [str(common.POLTER), "run", "-q", "--exporter", exporter, "-o", scratch + "/experiment", "true"]
        return "available here" not in subprocess.run(words, capture_output=True, text=True, timeout=60).stderr


def job(words: list[str]) -> dict[str, float]:
    """One run: the whole command and, of the ranks, the one in the middle; in milliseconds."""
    scratch = Path(tempfile.mkdtemp(prefix="polter-bench-"))
    try:
        words = [word.replace("SCRATCH", str(scratch)) for word in words]
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=scratch)
        whole = time.monotonic() - begin
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        ranks = [json.loads(path.read_text()) for path in scratch.glob("rank.*")]
        return {
            "whole": 1e3 * whole,
            **{key: statistics.median(rank[key + "_ns"] for rank in ranks) / 1e6 for key in ("wall", "cpu")},
            **{"slowest_" + key: max(rank[key + "_ns"] for rank in ranks) / 1e6 for key in ("init", "finalize")},
            "cpu_of_all": sum(rank["cpu_ns"] for rank in ranks) / 1e6,
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def start_up(flavour: str, rounds: int, exporters: list[str]) -> dict[str, object]:
    bare = [*common.mpirun(flavour, 2), str(common.BUILD / "bench" / flavour / "bench_mpi_start"), "SCRATCH/rank"]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ("untraced", *exporters)}
    for _ in range(rounds):
        for name, done in runs.items():
            traced = [str(common.POLTER), "run", "-q", "--exporter", name, "-o", "SCRATCH/experiment", "--"]
            done.append(job(bare if name == "untraced" else [*traced, *bare]))
    result: dict[str, object] = {"untraced": {key: spread([run[key] for run in runs["untraced"]]) for key in ("wall", "cpu", "whole")}}
    for name in exporters:
        result[name] = {
            f"added_{key}": {
                "of_least": round(min(run[key] for run in runs[name]) - min(run[key] for run in runs["untraced"]), 2),
                **common.quartiles([traced[key] - untraced[key] for traced, untraced in zip(runs[name], runs["untraced"])]),
            }
            for key in ("wall", "cpu", "whole")
        }
    return result


def hosts(flavour: str, ranks: int, rounds: int) -> dict[str, object]:
    """What the comparison of clocks adds, in milliseconds: to the slowest rank's MPI_Init and MPI_Finalize, and to the CPU time of all."""
    program = [str(common.BUILD / "bench" / flavour / "bench_mpi_start"), "SCRATCH/rank"]
    traced = [str(common.POLTER), "run", "-q", "--exporter", "none", "-o", "SCRATCH/experiment", "--", *common.mpirun(flavour, ranks), *program]
    kinds = {"one_host": (traced, ""), "datagrams": ([*traced, "apart"], ""), "mpi": ([*traced, "apart"], "mpi")}
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, (words, exchange) in kinds.items():
            os.environ["POLTER_CLOCK_EXCHANGE"] = exchange
            runs[kind].append(job(words))
    del os.environ["POLTER_CLOCK_EXCHANGE"]
    keys = ("slowest_init", "slowest_finalize", "cpu_of_all")
    return {
        kind: {key: round(statistics.median(run[key] for run in done) - statistics.median(run[key] for run in runs["one_host"]), 1) for key in keys}
        for kind, done in runs.items()
        if kind != "one_host"
    }


def catches(pid: int) -> bool:
    """Whether the process has a handler for SIGINT yet."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    return False


def noise_interrupted() -> float:
    """Seconds from SIGINT to the end of `polter noise`, half a second after it has begun."""
    words = [str(common.POLTER), "noise", "--seconds", "60"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not catches(process.pid):
        time.sleep(0.01)
    time.sleep(0.5)
    begin = time.monotonic()
    if process.poll() is not None:
        sys.exit(f"bench: {' '.join(words)} ended with {process.returncode} before it was interrupted:\n{process.communicate()[1][-2000:]}")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    seconds = time.monotonic() - begin
    if process.returncode != 0:
        sys.exit(f"bench: {' '.join(words)} ended with {process.returncode} when it was interrupted:\n{errors[-2000:]}")
    return seconds


def noise(rounds: int) -> dict[str, object]:
    words = [str(common.POLTER), "noise", "--seconds", "1"]
    whole = []
    for _ in range(rounds):
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        whole.append(time.monotonic() - begin)
        if done.returncode != 0:
            return {"not_measured": done.stderr.strip()}
    return {"one_second_s": spread(whole), "interrupted_s": spread([noise_interrupted() for _ in range(rounds)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=common.at_least_two, default=15, help="of all of it, in turn")
    parser.add_argument("--noise-rounds", type=common.at_least_two, default=5, help="of polter noise")
    parser.add_argument("--hosts", help="numbers of ranks, each of which passes for a host")
    options = parser.parse_args()
    flavours = [f for f in ("openmpi", "mpich") if (common.BUILD / "bench" / f / "bench_mpi_start").exists() and shutil.which(f"mpirun.{f}")]
    if options.hosts:
        common.show({
            "schema": "polter.bench.hosts/1",
            "load_before": os.getloadavg()[0],
            "rounds": options.rounds,
            "added_ms": {f: {number: hosts(f, int(number), options.rounds) for number in options.hosts.split(",")} for f in flavours},
        })
        return
    exporters = [name for name in EXPORTERS if available(name)]
    common.show({
        "schema": "polter.bench.start/1",
        "load_before": os.getloadavg()[0],
        "rounds": options.rounds,
        "start_ms": {flavour: start_up(flavour, options.rounds, exporters) for flavour in flavours},
        "noise": noise(options.noise_rounds),
    })


if __name__ == "__main__":
    main()
