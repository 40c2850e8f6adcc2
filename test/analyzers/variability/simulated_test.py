#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter variability on the simulator: intervals on 64 ranks, projected to 1024 and compared with what 1024 ranks take.

The measured lengths on 1024 ranks must lie within the range of the next interval in at least 90 % of cases. --broken: the larger machine has
another law, and the comparison must fail."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("", "truth")]
import machine  # noqa: E402
import schemas  # noqa: E402

LAWS = ["normal", "exponential", "pareto", "noisy-node"]
MACHINE = {"bandwidth": "12.5GBps", "latency": "1us"}
GRAIN_NS = 10_000_000


def simulated(folder, program, part, ranks, phases, law, seed):
    (folder / "platform.xml").write_text(machine.platform(MACHINE, ranks), encoding="utf-8")
    (folder / "hosts").write_text("".join(f"n{i}\n" for i in range(ranks)), encoding="utf-8")
    command = [shutil.which("smpirun"), "-np", str(ranks), "-platform", folder / "platform.xml", "-hostfile", folder / "hosts", "--log=root.thresh:warning"]
    command += ["--cfg=smpi/simulate-computation:no", "--cfg=smpi/privatization:no", "--cfg=smpi/coll-selector:mpich", "--cfg=surf/precision:1e-10"]
    # Collectives of few messages: the selector's own choices first have all ranks send to all, which takes minutes with 1024.
    command += ["--cfg=smpi/allreduce:rdb", "--cfg=smpi/reduce:binomial", "--cfg=smpi/barrier:ompi_tree"]
    file = folder / f"{law}-{ranks}-{seed}.json"
    environment = dict(os.environ, POLTER_BSP_LAW=law, POLTER_BSP_SEED=str(seed), POLTER_BSP_PART=str(part))
    done = subprocess.run([*command, program, "time", str(GRAIN_NS), "1", str(phases), "0", "barrier", "0", "0", "0", file],
                          capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"smpirun failed: {done.stderr[-2000:]}")
    return file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polter", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--small", type=int, default=64)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--phases", type=int, default=400, help="On the small machine")
    parser.add_argument("--large-phases", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--broken", action="store_true")
    arguments = parser.parse_args()
    shares, typical = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for law in LAWS:
            for seed in range(1, arguments.seeds + 1):
                small = simulated(folder, arguments.program, arguments.small, arguments.small, arguments.phases, law, seed)
                other = "exponential" if law == "normal" else "normal"
                large = simulated(folder, arguments.program, arguments.small, arguments.large, arguments.large_phases, other if arguments.broken else law, 1000 + seed)
                done = subprocess.run([arguments.polter, "variability", "--json", small, "--check", large], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(f"polter variability failed: {done.stderr}")
                result = json.loads(done.stdout)
                if schemas.faults("variability", result):
                    sys.exit(f"the result differs from its schema: {schemas.faults('variability', result)}")
                shares.append(result["check"]["share_inside"] or 0)  # no basis counts as a miss
                typical.append(result["check"]["typical_inside"])
                projected = next(p for p in result["kinds"][0]["projections"] if p["ranks"] == arguments.large)
                print(f"{law:>12} seed {seed}: measured typical {result['check']['typical_ns'] / 1e6:7.3f} ms, projected {projected['typical']['value'] / 1e6:7.3f} "
                      f"({' to '.join(f'{x / 1e6:.3f}' for x in projected['typical']['interval'] or [])}) {'inside' if typical[-1] else 'OUTSIDE'}; {100 * shares[-1]:.0f} % of the maxima inside", flush=True)
    inside = sum(shares) / len(shares)
    held = inside >= 0.9
    print(f"{'held' if held else 'MISSED'}: {100 * inside:.1f} % of the measured maxima inside (at least 90); typical inside in {sum(typical)} of {len(typical)} cases")
    return int(held if arguments.broken else not held)


if __name__ == "__main__":
    sys.exit(main())
