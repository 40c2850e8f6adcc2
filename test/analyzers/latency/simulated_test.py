#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter latency on a simulated machine of 32 hosts whose latencies are known: three classes of links, and a library that is slower from the
17th partner on."""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
import schemas  # noqa: E402

CLASSES = (2_000, 3_000, 5_000)  # ns: on a switch of 4, in a group of 8, across groups
HOSTS = 32


def class_of(a, b):
    return 0 if a // 4 == b // 4 else 1 if a // 8 == b // 8 else 2


def platform():
    """A link of its own for each pair, so that nothing is shared."""
    lines = ["<?xml version='1.0'?>", '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', '<platform version="4.1">', '<zone id="all" routing="Full">']
    lines += [f'<host id="n{i}" speed="1Gf"/>' for i in range(HOSTS)]
    pairs = [(a, b) for a in range(HOSTS) for b in range(a + 1, HOSTS)]
    lines += [f'<link id="l{a}-{b}" bandwidth="100GBps" latency="{CLASSES[class_of(a, b)]}ns" sharing_policy="FATPIPE"/>' for a, b in pairs]
    lines += [f'<route src="n{a}" dst="n{b}"><link_ctn id="l{a}-{b}"/></route>' for a, b in pairs]
    return "\n".join(lines + ["</zone>", "</platform>"])


def measure(arguments, folder, program, shuffle=0, ranks=HOSTS, trials=None):
    (folder / "platform.xml").write_text(platform())
    (folder / "hosts").write_text("".join(f"n{i}\n" for i in range(HOSTS)))
    raw = folder / f"{pathlib.Path(program).name}-{shuffle}.json"
    settings = {"smpi/simulate-computation": "no", "smpi/privatization": "no", "network/model": "CM02", "surf/precision": "1e-10"}
    command = [arguments.smpirun, "-np", str(ranks), "-platform", folder / "platform.xml", "-hostfile", folder / "hosts", "--log=root.thresh:warning"]
    command += [f"--cfg={key}:{value}" for key, value in settings.items()]
    command += [program, "1", str(trials or arguments.trials), "1", "1", "1000", "50", "1e9", "0", str(shuffle), raw]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=500)
    if done.returncode != 0:
        sys.exit(f"the simulation failed:\n{(done.stdout + done.stderr)[-2000:]}")
    done = subprocess.run([arguments.polter, "latency", "--json", "--from", raw], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"polter latency failed: {done.stderr}")
    return json.loads(done.stdout)


def bin_of(ns):
    return int(1000 / math.log(1e9 / 50) * math.log(ns / 50))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--polter", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--delayed", required=True, help="the same with a library that delays each partner of a rank from the 17th on by 10 us")
    parser.add_argument("--preempted", required=True, help="the same with rank 1 preempted for 100 us every 10 ms")
    parser.add_argument("--trials", type=int, default=4)
    arguments = parser.parse_args()
    arguments.smpirun = shutil.which("smpirun")
    failed = []

    def check(holds, what):
        print(f"{'held' if holds else 'MISSED'}: {what}")
        if not holds:
            failed.append(what)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        result = measure(arguments, folder, arguments.program)
        pairs = [sum(1 for a in range(HOSTS) for b in range(a + 1, HOSTS) if class_of(a, b) == k) for k in range(3)]
        check(schemas.faults("latency", result) == [] and schemas.faults("latency", dict(result, blocks=1)) != [], f"the schema: {schemas.faults('latency', result)}")
        modes = result["modes"]
        check(len(modes) == 3, f"three modes: {len(modes)}")
        for k, mode in enumerate(modes[:3]):
            centre = mode["centre"]["value"]
            check(abs(bin_of(centre) - bin_of(CLASSES[k])) <= 1, f"mode {k}: {centre:.0f} ns for {CLASSES[k]} ns, within 1 bin")
            check(math.isclose(mode["share"], pairs[k] / sum(pairs), rel_tol=1e-12), f"mode {k}: share {mode['share']:.6f} for {pairs[k] / sum(pairs):.6f}")
            check(len(mode["pairs"]) == pairs[k] and all(class_of(a, b) == k for a, b, _ in mode["pairs"]), f"mode {k}: its {pairs[k]} pairs")
        shuffled = measure(arguments, folder, arguments.program, shuffle=7)
        check(shuffled["slower_peers"] is None, "partners in another order: no limit on peers is reported where there is none")
        check([m["share"] for m in shuffled["modes"]] == [m["share"] for m in modes], "partners in another order: the same shares")
        delayed = measure(arguments, folder, arguments.delayed, shuffle=7)
        peers = delayed["slower_peers"]
        check(peers is not None and peers["from"] == 17, f"partners above the 16th are delayed: {peers}")
        quiet = measure(arguments, folder, arguments.program, ranks=2, trials=50_000)
        disturbed = measure(arguments, folder, arguments.preempted, ranks=2, trials=50_000)
        check(quiet["tails"]["off_node"]["samples"] == 0, "no tail where nothing disturbs")
        tail = disturbed["tails"]["off_node"]
        check(abs(tail["share_of_time"] / 0.01 - 1) <= 0.05, f"preempted for 1 % of the time: {100 * tail['share_of_time']:.4f} %, within 5 %")
        check(abs(tail["length_ns"] / 100_000 - 1) <= 0.05, f"for 100 us each: {tail['length_ns'] / 1e3:.2f} us, within 5 %")
        check([m["samples"] for m in tail["modes"]] == [tail["samples"]], "one mode of the tail, which has all of it")
        least = [r["distributions"]["off_node"]["pairwise_minima"]["least_ns"] for r in (quiet, disturbed)]
        check(abs(least[1] - least[0]) <= 1, f"the least latency has not moved: {least} ns")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
