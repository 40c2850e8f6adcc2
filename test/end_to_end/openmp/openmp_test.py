#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""MPI programs with OpenMP: which threads the trace has, and that the noise of one of them reaches the result."""
import collections
import json
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
REGIONS, WORK = 150, 3_000_000
COMPILERS = [c for c in ("gcc", "clang") if all((p.PROGRAMS / f / f"hybrid_{c}").exists() for f in p.FLAVOURS)]


def records(experiment):
    """How many records of each kind each location has, by otf2-print."""
    counts = collections.defaultdict(collections.Counter)
    output = subprocess.run(["otf2-print", str(experiment / "traces.otf2")], check=True, capture_output=True, text=True, timeout=p.LIMIT).stdout
    for line in output.splitlines():
        if match := re.match(r"([A-Z_]+)\s+(\d+)\s+\d+", line):
            kind, location = match.groups()
            barrier = re.search(r'Region: "(!\$omp [^"]*)"', line)
            counts[int(location)][f"{kind} {barrier[1]}" if barrier else kind] += 1
    return counts


def run(flavour, compiler, ranks, arguments, threads, experiment, **more):
    environment = {"OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false", **more}
    done = p.Run([*p.launcher(flavour, ranks), p.PROGRAMS / flavour / f"hybrid_{compiler}", *arguments], experiment, environment=environment)
    return done


class Records(unittest.TestCase):
    @staticmethod
    def each():
        for flavour in p.FLAVOURS:
            for compiler in COMPILERS:
                with p.folder() as folder:
                    yield flavour, compiler, folder / "e"

    def test_regions_and_barriers(self):
        for flavour, compiler, experiment in self.each():
            done = run(flavour, compiler, 2, [10, 1000, "barrier"], 3, experiment)
            self.assertEqual(done.code, 0, done.explain())
            self.assertEqual([r["threads"]["count"] for r in done.result["per_rank"]], [2, 2])
            self.assertFalse(any("record of it" in w for w in done.result["warnings"]), done.result["warnings"])
            if not shutil.which("otf2-print"):
                continue
            found = records(experiment)
            self.assertEqual(sorted(found), sorted(thread << 32 | rank for rank in range(2) for thread in range(3)))
            for location, of in found.items():
                master = location >> 32 == 0
                expected = 11 if of["THREAD_TEAM_BEGIN"] == 11 else 10  # the region that pins the threads, if there are CPUs for it
                self.assertEqual(of["THREAD_TEAM_BEGIN"], expected, of)
                self.assertEqual(of["THREAD_TEAM_END"], expected, of)
                self.assertEqual(of["THREAD_FORK"], expected if master else 0, of)
                self.assertEqual(of["THREAD_JOIN"], expected if master else 0, of)
                self.assertEqual(of["ENTER !$omp barrier"], 10, of)
                self.assertEqual(of["LEAVE !$omp barrier"], 10, of)
                self.assertEqual(of["ENTER !$omp implicit barrier"], expected if master else 0, of)

    def test_teams_that_shrink_and_grow(self):
        """Threads end and others take their places: not a location for each of the 60 threads that a runtime may make."""
        for flavour, compiler, experiment in self.each():
            done = run(flavour, compiler, 1, [40, 1000, "grow"], 4, experiment)
            self.assertEqual(done.code, 0, done.explain())
            # A thread that is about to end may still have its location when its successor begins.
            self.assertIn(done.result["per_rank"][0]["threads"]["count"], range(3, 10))

    def test_dynamic_loops_are_conditional(self):
        for flavour, compiler, experiment in self.each():
            done = run(flavour, compiler, 1, [10, 100000, "dynamic"], 2, experiment)
            self.assertEqual(done.code, 0, done.explain())
            if shutil.which("otf2-print"):
                self.assertEqual(records(experiment)[0]["ENTER !$omp implicit barrier (dynamic)"], 10)

    def test_locks(self):
        flavour = p.FLAVOURS[-1]  # the MPI makes no difference to them
        for compiler in COMPILERS:
            for kind, acquired in (("critical", 2), ("lock", 3)):
                with self.subTest(compiler=compiler, kind=kind), p.folder() as folder:
                    done = run(flavour, compiler, 1, [10, 1000, kind], 3, folder / "e")
                    self.assertEqual(done.code, 0, done.explain())
                    if not shutil.which("otf2-print"):
                        continue
                    found = records(folder / "e")
                    for location, of in found.items():
                        self.assertEqual(of["THREAD_ACQUIRE_LOCK"], 10 * acquired, (location, of))
                        self.assertEqual(of["THREAD_RELEASE_LOCK"], 10 * acquired, (location, of))
                        self.assertEqual(of["ENTER !$omp critical"], 20 if kind == "critical" else 0, of)
                    self.assertEqual(len(found), 3)

    def test_locks_of_fortran(self):
        """A lock that is tested until the thread has it counts once, and so does one that the thread takes again while it has it."""
        for flavour in p.FLAVOURS:
            program = p.PROGRAMS / flavour / "openmp_locks"
            if not program.exists():
                self.skipTest("no Fortran compiler")
            with self.subTest(flavour=flavour), p.folder() as folder:
                done = p.Run([*p.launcher(flavour, 1), program], folder / "e", ["--exporter", "none"], {"OMP_DYNAMIC": "false"})
                self.assertEqual(done.code, 0, done.explain())
                if not shutil.which("otf2-print"):
                    self.skipTest("otf2-print is not installed: the records were not counted")
                found = records(folder / "e")
                self.assertEqual(len(found), 3)
                for location, of in found.items():
                    self.assertEqual((of["THREAD_ACQUIRE_LOCK"], of["THREAD_RELEASE_LOCK"]), (40, 40), (location, of))

    def test_tasks(self):
        for flavour, compiler, experiment in self.each():
            done = run(flavour, compiler, 1, [10, 1000, "tasks"], 3, experiment)
            self.assertEqual(done.code, 0, done.explain())
            if shutil.which("otf2-print"):
                found = records(experiment)
                for kind in ("ENTER", "LEAVE"):
                    self.assertEqual(sum(of[f"{kind} !$omp task"] for of in found.values()), 120, found)
                    self.assertEqual(sum(of[f"{kind} !$omp taskwait"] for of in found.values()), 20, found)
                begun, ended = (sum(of[f"THREAD_TEAM_{kind}"] for of in found.values()) for kind in ("BEGIN", "END"))
                self.assertEqual(begun, ended, found)

    def test_untraced_is_the_same(self):
        """The library without an experiment, and what is traced: the same result of the program."""
        flavour = p.FLAVOURS[0]
        for compiler in COMPILERS:
            for kind in ("barrier", "lock", "tasks"):
                with self.subTest(compiler=compiler, kind=kind), p.folder() as folder:
                    program = [p.PROGRAMS / flavour / f"hybrid_{compiler}", 10, 1000, kind]
                    plain = p.command(program, {"OMP_NUM_THREADS": "3"})
                    library = {"OMP_NUM_THREADS": "3", "LD_PRELOAD": str(p.BUILD / "lib" / "polter" / "libpolter-mpi.so")}
                    with_library = p.command(program, library)
                    self.assertEqual(plain.returncode, 0, plain.stderr)
                    self.assertEqual(json.loads(plain.stdout)["sum"], json.loads(with_library.stdout)["sum"])
                    self.assertEqual(with_library.stderr, plain.stderr)
                    traced = run(flavour, compiler, 1, [10, 1000, kind], 3, folder / "e")
                    self.assertIn(f'"sum": {json.loads(plain.stdout)["sum"]}}}', traced.output + traced.error)


class Noise(unittest.TestCase):
    def test_worker(self):
        """One rank with two threads, each on its CPU; a competitor on the worker's."""
        p.needs_two_cpus_and_an_exporter(self)
        p.on_each_mpi(self.check, TRIES)

    def check(self, flavour):
        # The worker is the last one in each region, so nearly all of its noise counts.
        result = p.beside_rival(self, flavour, lambda folder: run(flavour, "gcc", 1, [REGIONS, WORK, "static"], 2, folder), PERCENT)
        rank = result["per_rank"][0]
        self.assertEqual(rank["threads"]["count"], 1)
        self.assertLess(rank["local_noise_ns"], 0.3 * rank["threads"]["local_noise_ns"])
        worst = max((c for c in result["culprits"] if c["source"] == "preempt"), key=lambda c: c["local_ns"])
        self.assertEqual(worst["culprit"], "polter-rival")


if __name__ == "__main__":
    if not p.FLAVOURS or not COMPILERS:
        print("SKIP: no MPI launcher, or no compiler with OpenMP")
        sys.exit(77)
    p.go_first()
    unittest.main(verbosity=2)
