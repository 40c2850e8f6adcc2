#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Threads of an MPI program that wait for each other by mutexes and condition variables: the program behaves as untraced, the trace has its
waits and what ended them, and the noise of one thread reaches the result through the other that waits for it."""
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
MUTEX, CONDITION = "pthread_mutex_lock", "pthread_cond_wait"
LIBRARY = {"LD_PRELOAD": str(p.BUILD / "lib" / "polter" / "libpolter-mpi.so")}


class Trace:
    """Waits by region and location; releases and acquisitions by lock and order, with their times; what the trace says that it lacks."""

    def __init__(self, experiment):
        self.entered, self.left = collections.Counter(), collections.Counter()
        self.releases, self.acquisitions = {}, {}
        self.locks = collections.defaultdict(set)  # by the region that they were acquired in
        inside, output = {}, self.print(experiment)
        for line in output.splitlines():
            if match := re.match(r'(ENTER|LEAVE)\s+(\d+)\s+\d+\s+Region: "(pthread_(?:mutex_lock|cond_wait))"', line):
                kind, location, region = match.groups()
                (self.entered if kind == "ENTER" else self.left)[region] += 1
                inside[location] = region if kind == "ENTER" else None
            elif match := re.match(r"THREAD_(ACQUIRE|RELEASE)_LOCK\s+(\d+)\s+(\d+)\s+.*Lock: (\d+), Acquisition Order: (\d+)", line):
                kind, location, time, lock, order = match.groups()
                into = self.acquisitions if kind == "ACQUIRE" else self.releases
                assert (lock, int(order)) not in into, line
                into[lock, int(order)] = int(time)
                if kind == "ACQUIRE":
                    self.locks[inside.get(location)].add(lock)
        lines = self.print(experiment, "-A").splitlines()
        values = [lines[at + 1] for at, line in enumerate(lines) if line.split()[-1:] == ["POLTER::NOT_RECORDED"]]
        self.lacks = values[0].split()[-1] if values else ""

    @staticmethod
    def print(experiment, *options):
        return subprocess.run(["otf2-print", *options, str(experiment / "traces.otf2")], check=True, capture_output=True, text=True,
                              timeout=p.LIMIT).stdout

    def released_before(self):
        """Of how many acquisitions the trace has the release before, no later than they are."""
        return sum(self.releases.get((lock, order - 1), time + 1) <= time for (lock, order), time in self.acquisitions.items())


def program(flavour, ranks, *arguments):
    return [*p.launcher(flavour, ranks), p.PROGRAMS / flavour / "mutexes", *arguments]


@unittest.skipUnless(shutil.which("otf2-print"), "otf2-print is not installed")
class Records(unittest.TestCase):
    def traced(self, flavour, *arguments, **environment):
        plain = p.command([p.PROGRAMS / flavour / "mutexes", *arguments])
        self.assertEqual(plain.returncode, 0, plain.stderr)
        with p.folder() as folder:
            done = p.Run(program(flavour, 1, *arguments), folder / "e", ["--exporter", "none"], environment)
            self.assertEqual(done.code, 0, done.explain())
            self.assertIn(plain.stdout.strip(), (done.output + done.error).splitlines())
            trace = Trace(folder / "e")
        self.assertEqual(trace.entered, trace.left)
        self.assertFalse([w for w in done.result["warnings"] if "has no record of it" in w], done.result["warnings"])
        return trace

    def test_behaviour_is_unchanged(self):
        """Error-checking, recursive, robust mutexes, waits that end by the time, a cancelled wait: all results are as untraced."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour=flavour):
                trace = self.traced(flavour, "kinds")
                self.assertGreaterEqual(trace.entered[MUTEX], 8)
                self.assertGreaterEqual(trace.entered[CONDITION], 3)
                self.assertEqual(trace.lacks, "uncontended")

    def test_without_a_trace(self):
        for flavour in p.FLAVOURS:
            plain, with_library = (p.command([p.PROGRAMS / flavour / "mutexes", "kinds"], more) for more in ({}, LIBRARY))
            self.assertEqual((with_library.returncode, with_library.stderr), (0, plain.stderr))
            self.assertEqual(with_library.stdout, plain.stdout)

    def test_mutex(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour=flavour):
                trace = self.traced(flavour, "mutex", 20, 1_000_000)
                self.assertIn(trace.entered[MUTEX], range(10, 41))  # all but those before which another program had the CPU
                # The first acquisition of the thread that works is not in the trace, as it found the mutex free, but its release is.
                self.assertGreaterEqual(len(trace.acquisitions), trace.entered[MUTEX])
                self.assertEqual(trace.released_before(), len([order for _, order in trace.acquisitions if order > 1]))
                self.assertGreater(len(trace.releases), len(trace.acquisitions))
                self.assertEqual(len({lock for lock, _ in trace.acquisitions}), 1)

    def test_condition(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour=flavour):
                trace = self.traced(flavour, "condition", 20, 1_000_000)
                self.assertIn(trace.entered[CONDITION], range(20, 81))
                self.assertEqual(len(trace.locks[CONDITION]), 3)  # two conditions and the mutex
                self.assertEqual(trace.released_before(), len([order for _, order in trace.acquisitions if order > 1]))

    def test_crowd(self):
        """Each wait ends by a release that is in the trace, however many threads wait; nothing is counted twice."""
        trace = self.traced(p.FLAVOURS[-1], "crowd", 50, 0)
        self.assertGreaterEqual(trace.entered[CONDITION], 50)
        self.assertEqual(trace.released_before(), len([order for _, order in trace.acquisitions if order > 1]))

    def test_what_does_not_wait(self):
        """A mutex that nobody else wants, and what MPI and the tracer do, have no records."""
        for flavour in p.FLAVOURS:
            for arguments in (("free", 1, 100_000), ("mpi",)):
                with self.subTest(flavour=flavour, arguments=arguments):
                    trace = self.traced(flavour, *arguments)
                    self.assertFalse(trace.entered)
                    self.assertFalse(trace.releases)
                    self.assertEqual(trace.lacks, "")

    def test_allocator(self):
        """Recording may allocate, while the thread has the mutex."""
        trace = self.traced(p.FLAVOURS[-1], "memory", LD_PRELOAD=str(p.PROGRAMS / "liblocking-malloc.so"))
        self.assertFalse(trace.entered)

    def test_runtime_of_openmp(self):
        """LLVM's runtime waits by conditions of its own."""
        hybrid = p.PROGRAMS / p.FLAVOURS[-1] / "hybrid_clang"
        if not hybrid.exists():
            self.skipTest("no clang with OpenMP")
        with p.folder() as folder:
            more = {"OMP_NUM_THREADS": "3", "KMP_BLOCKTIME": "0"}
            done = p.Run([*p.launcher(p.FLAVOURS[-1], 1), hybrid, 20, 1000, "barrier"], folder / "e", ["--exporter", "none"], more)
            self.assertEqual(done.code, 0, done.explain())
            trace = Trace(folder / "e")
        self.assertFalse(trace.entered)
        self.assertEqual(trace.lacks, "")


class Noise(unittest.TestCase):
    def test_other_thread(self):
        """The main thread, on CPU 0, waits for a thread on CPU 1 by a mutex, or by a condition; a competitor on CPU 1."""
        p.needs_two_cpus_and_an_exporter(self)
        for case in ("mutex", "condition"):
            with self.subTest(case=case):
                p.on_each_mpi(lambda flavour, case=case: self.check(flavour, case), TRIES)

    def check(self, flavour, case):
        job = program(flavour, 1, case, 100, 5_000_000)
        result = p.beside_rival(self, f"{flavour}, {case}", lambda folder: p.Run(job, folder), PERCENT)
        rank = result["per_rank"][0]
        self.assertLess(rank["local_noise_ns"], 0.3 * rank["threads"]["local_noise_ns"])
        self.assertTrue(result["conditional"])


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if sys.argv[1:2] == ["Noise"]:
        p.go_first()
    unittest.main(verbosity=2)
