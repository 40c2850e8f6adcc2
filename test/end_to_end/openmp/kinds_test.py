#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""OpenMP's constructs one by one: the program computes what it does untraced, the trace has the records that belong to them, and says of
what is not recorded that it was there."""
import collections
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import polter_run as p

FLAVOUR = p.FLAVOURS[-1] if p.FLAVOURS else None  # the MPI makes no difference to them
COMPILERS = [c for c in ("gcc", "clang") if FLAVOUR and (p.PROGRAMS / FLAVOUR / f"openmp_kinds_{c}").exists()]
TIMES, TASKS = 10, 6


class Kinds(unittest.TestCase):
    def each(self, *kinds):
        """Runs each kind; the experiment, the result, records by kind and region, what the trace says that it lacks."""
        for compiler in COMPILERS:
            for kind in kinds:
                with self.subTest(compiler=compiler, kind=kind), p.folder() as folder:
                    program = p.PROGRAMS / FLAVOUR / f"openmp_kinds_{compiler}"
                    done = p.Run([*p.launcher(FLAVOUR, 1), program, kind], folder / "e", ["--exporter", "none"], {"OMP_DYNAMIC": "false"})
                    self.assertEqual(done.code, 0, done.explain())
                    self.compiler = compiler
                    yield kind, done.result, self.records(folder / "e"), self.lacks(folder / "e")

    @staticmethod
    def records(experiment):
        counts = collections.Counter()
        for line in p.command(["otf2-print", experiment / "traces.otf2"]).stdout.splitlines():
            if match := re.match(r'(ENTER|LEAVE)\s+\d+\s+\d+\s+Region: "([^"]*)"', line):
                counts[" ".join(match.groups())] += 1
        return counts

    @staticmethod
    def lacks(experiment):
        lines = p.command(["otf2-print", "-A", experiment / "traces.otf2"]).stdout.splitlines()
        values = [lines[at + 1] for at, line in enumerate(lines) if line.split()[-1:] == ["POLTER::NOT_RECORDED"]]
        return values[0].split()[-1] if values else ""

    def test_what_is_not_recorded_is_named(self):
        for kind, result, _, lacks in self.each("nested", "ordered", "doacross", "detach"):
            named = {"nested": "nested", "detach": "detached"}.get(kind, "ordered")
            self.assertEqual(lacks, named)
            words = {"nested": "regions within regions", "detached": "tasks that may be detached", "ordered": "ordered sections"}[named]
            self.assertEqual(len([w for w in result["warnings"] if f"the program has {words}, which" in w]), 1, result["warnings"])
            self.assertTrue(result["conditional"])

    def test_teams(self):
        """libgomp executes teams one after the other, on the thread that comes to them: their regions are recorded as any. LLVM's runtime
        gives each a thread."""
        for _, result, found, lacks in self.each("teams", "target"):
            named = "teams" if self.compiler == "clang" else ""
            self.assertEqual(lacks, named)
            self.assertEqual(len([w for w in result["warnings"] if "teams that run at the same time, which" in w]), bool(named))
            if self.compiler == "gcc":  # LLVM's has no barrier for a team of one thread, as on few CPUs
                self.assertEqual(found["ENTER !$omp implicit barrier"], 2 * TIMES, found)

    def test_loops_of_tasks(self):
        for _, result, found, lacks in self.each("taskloop", "aligned", "copied", "unsigned", "reduction"):
            self.assertEqual((found["ENTER !$omp task"], found["LEAVE !$omp task"]), (TIMES * TASKS, TIMES * TASKS), found)
            self.assertEqual(lacks, "")
            self.assertFalse([w for w in result["warnings"] if "does not record" in w], result["warnings"])

    def test_a_detached_task_ends_with_its_code(self):
        for _, _, found, _ in self.each("detach"):
            self.assertEqual((found["ENTER !$omp task"], found["LEAVE !$omp task"]), (TIMES * (TASKS + 1), TIMES * (TASKS + 1)), found)

    def test_a_dynamic_loop_without_sign(self):
        for _, _, found, _ in self.each("dynamic"):
            dynamic = sum(count for record, count in found.items() if record.startswith("ENTER") and record.endswith("barrier (dynamic)"))
            self.assertGreaterEqual(dynamic, TIMES, found)


if __name__ == "__main__":
    if not COMPILERS or not shutil.which("otf2-print"):
        print("SKIP: no MPI launcher, no compiler with OpenMP, or no otf2-print")
        sys.exit(77)
    unittest.main(verbosity=2)
