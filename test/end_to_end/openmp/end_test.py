#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Threads that are in OpenMP's runtime when MPI_Finalize ends the trace, and behind it: the program ends as it does untraced, the trace is
whole, ends what was open, and says how much came after its end."""
import collections
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import polter_run as p

COMPILERS = [c for c in ("gcc", "clang") if all((p.PROGRAMS / f / f"openmp_at_end_{c}").exists() for f in p.FLAVOURS)]
AFTER_MPI_FINALIZE = 5 * (1 + 2 * 7)  # regions; in each the fork, and of both threads: two of a critical section, of a lock, task, wait, fork
OPENS = {"ENTER": "LEAVE", "THREAD_TEAM_BEGIN": "THREAD_TEAM_END", "THREAD_FORK": "THREAD_JOIN"}


def unclosed(experiment):
    """Records without their counterpart, by location; regions that are not left in the order in which they were entered."""
    output = p.command(["otf2-print", experiment / "traces.otf2"])
    assert output.returncode == 0 and "error" not in output.stderr.lower(), output.stderr
    balance, regions, bad = collections.Counter(), collections.defaultdict(list), []
    for line in output.stdout.splitlines():
        match = re.match(r"([A-Z_]+)\s+(\d+)\s+\d+\s*(.*)", line)
        if not match:
            continue
        kind, location, rest = match.groups()
        region = re.match(r'Region: "([^"]*)"', rest)
        if kind == "ENTER":
            regions[location].append(region[1])
        elif kind == "LEAVE" and (not regions[location] or regions[location].pop() != region[1]):
            bad.append(line)
        for opens, closes in OPENS.items():
            balance[location, opens] += (kind == opens) - (kind == closes)
    return bad + [f"{key}: {open_}" for key, open_ in balance.items() if open_]


def said(warnings, text):
    return [w for w in warnings if text in w]


class End(unittest.TestCase):
    def each(self, kind):
        for flavour in p.FLAVOURS:
            for compiler in COMPILERS:
                with self.subTest(flavour=flavour, compiler=compiler), p.folder() as folder:
                    program = p.PROGRAMS / flavour / f"openmp_at_end_{compiler}"
                    done = p.Run([*p.launcher(flavour, 1), program, kind], folder / "e", ["--exporter", "none"], {"OMP_DYNAMIC": "false"})
                    self.assertEqual(done.code, 0, done.explain())
                    self.assertTrue(re.search("^done$", done.output + done.error, re.M), done.explain())
                    yield folder / "e", done

    def property(self, experiment, name):
        if not shutil.which("otf2-print"):
            self.skipTest("no otf2-print")
        lines = p.command(["otf2-print", "-A", experiment / "traces.otf2"]).stdout.splitlines()
        for at, line in enumerate(lines):
            if line.split()[-1:] == [f"POLTER::{name}"]:
                return lines[at + 1].split()[-1]
        return None

    def check_late(self, experiment, done):
        """How many, as the warning and the property say."""
        late = said(done.result["warnings"], "after MPI_Finalize: they are not in the trace")
        self.assertEqual(len(late), 1, done.result["warnings"])
        number = re.search(r"threads of ranks 0 had (\d+) further events", late[0])[1]
        self.assertEqual(self.property(experiment, "EVENTS_AFTER_END"), number)
        return int(number)

    def test_in_a_region(self):
        for kind in ("within", "beside"):
            for experiment, done in self.each(kind):
                self.assertGreater(self.check_late(experiment, done), 0)
                if kind == "within":
                    self.assertTrue(said(done.result["warnings"], "3 thread(s) were in a parallel region"), done.result["warnings"])
                self.assertFalse(said(done.result["warnings"], "moved up"), done.result["warnings"])
                self.assertEqual(self.property(experiment, "INCOMPLETE"), "no")
                self.assertEqual(unclosed(experiment), [])

    def test_regions_after_it(self):
        for experiment, done in self.each("after"):
            self.assertEqual(self.check_late(experiment, done), AFTER_MPI_FINALIZE)
            self.assertFalse(said(done.result["warnings"], "ended the trace"), done.result["warnings"])
            self.assertEqual(unclosed(experiment), [])

    def test_a_thread_that_goes_on_writing(self):
        """Held for two seconds in the middle of a record: nothing is closed beside it, and the events until then are there."""
        for experiment, done in self.each("stuck"):
            self.assertTrue(said(done.result["warnings"], "another thread was still writing an event a second after MPI_Finalize"), done.result["warnings"])
            self.check_late(experiment, done)
            self.assertEqual(self.property(experiment, "INCOMPLETE"), "yes")
            self.assertEqual(p.otf2_print_errors(experiment), [])
            self.assertTrue([s for s in p.replay(experiment)["call_sites"] if s["operation"] == "MPI_Finalize"])

    def test_nothing_is_said_without_need(self):
        with p.folder() as folder:
            program = p.PROGRAMS / p.FLAVOURS[0] / "hybrid_gcc"
            done = p.Run([*p.launcher(p.FLAVOURS[0], 2), program, 10, 1000, "barrier"], folder / "e", ["--exporter", "none"], {"OMP_NUM_THREADS": "3"})
            self.assertEqual(done.code, 0, done.explain())
            self.assertFalse(said(done.result["warnings"], "MPI_Finalize"), done.result["warnings"])
            self.assertIsNone(self.property(folder / "e", "EVENTS_AFTER_END"))


if __name__ == "__main__":
    if not p.FLAVOURS or not COMPILERS:
        print("SKIP: no MPI launcher, or no compiler with OpenMP")
        sys.exit(77)
    unittest.main(verbosity=2)
