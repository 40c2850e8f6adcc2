# SPDX-License-Identifier: BSD-3-Clause
"""What tracing adds to a real program: LAMMPS on 2 ranks, untraced and traced in turn; then single calls and the page."""

import argparse
import json
import re
import subprocess
import sys

import calls
import common


def loop_seconds(output: str) -> float:
    """LAMMPS's own time of its main loop: start-up and launcher are outside."""
    return float(re.search(r"Loop time of ([0-9.e+-]+)", output).group(1))


def dilation(pairs: int, steps: int, exporter: str) -> dict[str, object]:
    lammps = [*common.mpirun("openmpi", 2), "lmp", "-in", str(common.ROOT / "scripts/melt.in"), "-var", "steps", str(steps), "-log", "none"]
    ratios, same = [], []
    for pair in range(pairs):
        # Untraced, traced, untraced: the two untraced runs show how much the machine alone moves the ratio.
        before = loop_seconds(common.run(lammps, traced=False))
        traced = loop_seconds(common.run(lammps, traced=True, exporter=exporter))
        after = loop_seconds(common.run(lammps, traced=False))
        ratios.append(100 * (traced / ((before + after) / 2) - 1))
        same.append(100 * (after / before - 1))
    return {"percent": common.quartiles(ratios), "same_binary_twice_percent": common.quartiles(same), "pairs": pairs, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=common.at_least_two, default=15, help="of LAMMPS runs, untraced and traced in turn")
    parser.add_argument("--steps", type=int, default=400, help="of LAMMPS")
    parser.add_argument("--call-rounds", type=common.at_least_two, default=7, help="of single calls, untraced and traced in turn")
    parser.add_argument("--calls", type=int, default=5000, help="of each kind, 21 times over, in each round")
    parser.add_argument("--page-rounds", type=int, default=15)
    parser.add_argument("--exporter", default="auto")
    options = parser.parse_args()
    polterd = common.BUILD / "lib/polter/polterd"
    page = subprocess.run([common.BUILD / "bench/bench_exporter", polterd, str(options.page_rounds)], capture_output=True, text=True, timeout=300)
    if page.returncode not in (0, 77):  # 77: no exporter here, so no page
        sys.exit(f"bench: bench_exporter ended with {page.returncode}: {page.stderr}")
    common.show({
        "schema": "polter.bench.overhead/1",
        "lammps_dilation": dilation(options.pairs, options.steps, options.exporter),
        "call_ns": calls.measure(options.call_rounds, options.exporter, options.calls),
        "page": json.loads(page.stdout) if page.returncode == 0 else {"not_measured": page.stderr.strip()},
    })


if __name__ == "__main__":
    main()
