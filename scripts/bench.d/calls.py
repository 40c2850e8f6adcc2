# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds that tracing adds to single MPI calls: the same program untraced and traced in turn, both MPIs, C and Fortran."""

import argparse
import json
import statistics
from collections.abc import Sequence

import common


def per_call(output: str) -> dict[str, float]:
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["case"]: line["ns_per_call"] for line in lines if "case" in line}


PROGRAMS = ("openmpi", "mpich", "openmpi_fortran", "mpich_fortran", "openmpi_fortran_f08", "mpich_fortran_f08")


def measure(rounds: int, exporter: str, calls: int = 5000, programs: Sequence[str] = PROGRAMS) -> dict[str, object]:
    result = {}
    for name in programs:
        flavour, _, language = name.partition("_")  # Fortran: by mpif.h, and by mpi_f08
        program = common.BUILD / "bench" / flavour / ("bench_mpi_calls" + ("_" + language if language else ""))
        command = [*common.mpirun(flavour, 2), str(program), str(calls)]
        if not program.exists():
            continue
        bare, traced = [], []
        for _ in range(rounds):
            bare.append(per_call(common.run(command, traced=False)))
            traced.append(per_call(common.run(command, traced=True, exporter=exporter)))
        result[name] = {
            call: {
                "bare_ns": round(statistics.median(run[call] for run in bare), 1),
                "added_ns": common.quartiles([with_[call] - without[call] for with_, without in zip(traced, bare)]),
            }
            for call in bare[0]
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=common.at_least_two, default=11, help="runs untraced and traced, in turn")
    parser.add_argument("--calls", type=int, default=5000, help="of each kind, 21 times over")
    parser.add_argument("--exporter", default="auto")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="which of them; default: all that are built")
    options = parser.parse_args()
    common.show({"schema": "polter.bench.calls/1", "call_ns": measure(options.rounds, options.exporter, options.calls, options.programs)})


if __name__ == "__main__":
    main()
