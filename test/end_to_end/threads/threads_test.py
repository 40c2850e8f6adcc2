#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs that start threads themselves: which records the trace has of them, that the program is as untraced, and that the noise of
such a thread reaches the result."""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import polter_run as p

PERCENT = 30
TRIES = 3
KINDS = ("THREAD_CREATE", "THREAD_BEGIN", "THREAD_END", "THREAD_WAIT")
# By case: records of each kind in a process, and how many further locations it has at most.
CASES = {
    "join": ((3, 3, 3, 3), 3),
    "turns": ((20, 20, 20, 20), 1),
    "detached": ((3, 3, 3, 0), 3),
    "cancelled": ((3, 3, 3, 3), 3),
    "small": ((0, 0, 0, 0), 0),
    "forked": ((1, 1, 1, 1), 1),
    "nested": ((2, 2, 2, 2), 2),
    "atexit": ((1, 1, 1, 1), 2),
}


def records(experiment):
    """How many records of each kind each location has, by otf2-print."""
    counts = collections.defaultdict(collections.Counter)
    output = subprocess.run(["otf2-print", str(experiment / "traces.otf2")], check=True, capture_output=True, text=True, timeout=p.LIMIT).stdout
    for line in output.splitlines():
        if match := re.match(r"([A-Z_]+)\s+(\d+)\s+\d+", line):
            kind, location = match.groups()
            counts[int(location)][f"{kind} join" if "pthread_join" in line else kind] += 1
    return counts


def program(flavour, ranks, *arguments):
    return [*p.launcher(flavour, ranks), p.PROGRAMS / flavour / "threads_of_its_own", *arguments]


class Records(unittest.TestCase):
    def test_each_case(self):
        for flavour in p.FLAVOURS:
            for case, (expected, locations) in CASES.items():
                if flavour != p.FLAVOURS[0] and case not in ("detached", "cancelled"):
                    continue  # the MPI makes no difference to the others
                with self.subTest(flavour=flavour, case=case), p.folder() as folder:
                    plain = p.command([p.PROGRAMS / flavour / "threads_of_its_own", case])
                    self.assertEqual(plain.returncode, 0, plain.stderr)
                    done = p.Run(program(flavour, 2, case), folder / "e")
                    self.assertEqual(done.code, 0, done.explain())
                    line = plain.stdout.strip()
                    self.assertTrue(line.startswith(case), plain.stdout)
                    self.assertEqual((done.output + done.error).splitlines().count(line), 2, done.explain())
                    self.assertFalse(done.result["run"].get("incomplete"), done.explain())
                    warned = [w for w in done.result["warnings"] if "64 KiB" in w]
                    self.assertEqual(bool(warned), case == "small", done.result["warnings"])
                    if not shutil.which("otf2-print"):
                        continue
                    found = records(folder / "e")
                    for rank in range(2):
                        of_rank = [of for location, of in found.items() if location & 0xFFFFFFFF == rank]
                        self.assertLessEqual(len(of_rank) - 1, locations, found)
                        self.assertEqual(tuple(sum(of[kind] for of in of_rank) for kind in KINDS), expected, found)
                        self.assertEqual(sum(of["ENTER join"] for of in of_rank), sum(of["LEAVE join"] for of in of_rank), found)
                        if case != "small":
                            self.assertEqual(done.result["per_rank"][rank]["threads"]["count"], len(of_rank) - 1, found)

    def test_without_a_trace(self):
        """The preload library alone passes calls on."""
        library = {"LD_PRELOAD": str(p.BUILD / "lib" / "polter" / "libpolter-mpi.so")}
        for case in CASES:
            done = p.command([p.PROGRAMS / p.FLAVOURS[0] / "threads_of_its_own", case], library)
            self.assertEqual((done.returncode, done.stderr), (0, ""), case)


class Noise(unittest.TestCase):
    def test_joined_thread(self):
        """Threads on CPU 1 that the main thread, on CPU 0, starts and joins in turn; a competitor on CPU 1."""
        p.needs_two_cpus_and_an_exporter(self)
        p.on_each_mpi(self.check, TRIES)

    def check(self, flavour):
        job = program(flavour, 1, "turns", 20, 30_000_000)
        result = p.beside_rival(self, flavour, lambda folder: p.Run(job, folder), PERCENT)
        self.assertEqual(result["per_rank"][0]["threads"]["count"], 1)
        self.assertTrue(result["conditional"])
        worst = max((c for c in result["culprits"] if c["source"] == "preempt"), key=lambda c: c["local_ns"])
        self.assertEqual(worst["culprit"], "polter-rival")


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if sys.argv[1:2] == ["Noise"]:
        p.go_first()
    unittest.main(verbosity=2)
