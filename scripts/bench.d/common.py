# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmarks share: running a command traced and untraced in turn, quartiles, and the machine they ran on."""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("POLTER_BUILD", ROOT / "build"))
POLTER = BUILD / "polter"


def mpirun(flavour: str, ranks: int) -> list[str]:
    command = ["mpirun." + flavour, "-n", str(ranks)]
    if flavour == "openmpi" and ranks > (os.cpu_count() or 1):
        command.insert(1, "--oversubscribe")
    return command


def run(command: list[str], traced: bool, exporter: str = "auto") -> str:
    """The standard output of the command; traced into a directory that is thrown away."""
    scratch = tempfile.mkdtemp(prefix="polter-bench-")
    try:
        if traced:
            command = [str(POLTER), "run", "-q", "--exporter", exporter, "-o", scratch + "/experiment", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=scratch)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def at_least_two(text: str) -> int:
    """A number of samples: quartiles need two."""
    if int(text) < 2:
        raise ValueError
    return int(text)


def quartiles(values: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"q1": round(low, 4), "median": round(median, 4), "q3": round(high, 4), "samples": len(values)}


def machine() -> dict[str, object]:
    return {"cpus": os.cpu_count(), "kernel": platform.release()}


def show(result: dict[str, object]) -> None:
    print(json.dumps({"machine": machine(), **result}, indent=2))
