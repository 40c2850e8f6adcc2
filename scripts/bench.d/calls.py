# SPDX-License-Identifier: BSD-3-Clause
"""Nanoseconds that tracing adds to single MPI calls: the same program untraced and traced in turn, both MPIs."""

import argparse
import json
import statistics

import common


def per_call(output: str) -> dict[str, float]:
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["call"]: line["ns"] for line in lines}


def measure(rounds: int, exporter: str) -> dict[str, object]:
    result = {}
    for flavour in ("openmpi", "mpich"):
        program = common.ROOT / "build/bench" / flavour / "bench_mpi_calls"
        command = [*common.mpirun(flavour, 2), str(program)]
        bare, traced = [], []
        for _ in range(rounds):
            bare.append(per_call(common.run(command, traced=False)))
            traced.append(per_call(common.run(command, traced=True, exporter=exporter)))
        result[flavour] = {
            call: {
                "bare_ns": round(statistics.median(run[call] for run in bare), 1),
                "added_ns": common.quartiles([with_[call] - without[call] for with_, without in zip(traced, bare)]),
            }
            for call in bare[0]
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--exporter", default="auto")
    options = parser.parse_args()
    common.show({"call_ns": measure(options.rounds, options.exporter)})


if __name__ == "__main__":
    main()
