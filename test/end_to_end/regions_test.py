# SPDX-License-Identifier: BSD-3-Clause
"""Regions of C, C++ and Fortran programs, MPI_Pcontrol, and what polter run is told to record: known counts in the trace, and the messages
are there whatever is switched off. Counters at regions: known page faults; events that cannot be counted end the run before it starts."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import polter_run as run

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "tracer" / "programs" / "regions"
HEADER = pathlib.Path(__file__).resolve().parents[2] / "tracer" / "regions"
RANKS = 2
PRINTED = re.compile(r"^(ENTER|LEAVE|METRIC|MPI_SEND|PARAMETER_INT64|MPI_COLLECTIVE_END) +(\d+) +(\d+) +(.*)$", re.M)
STEPS = {"steps": 1, "step": 10, "scoped": 100, "named 0": 5, "named 1": 5, "outer": 1, "inner": 1, "unclosed": 1}


class Trace:
    def __init__(self, experiment):
        done = run.command(["otf2-print", experiment / "traces.otf2"])
        assert done.returncode == 0 and "error" not in done.stderr.lower(), done.stderr
        self.events = [(kind, int(location), int(time), rest) for kind, location, time, rest in PRINTED.findall(done.stdout)]
        anchor = run.command(["otf2-print", "-A", experiment / "traces.otf2"]).stdout
        self.properties = anchor
        self.entered = collections.Counter(self.region(rest) for kind, _, _, rest in self.events if kind == "ENTER")
        self.sends = sum(kind == "MPI_SEND" for kind, *_ in self.events)
        self.levels = [int(rest.rsplit(" ", 1)[1]) for kind, location, _, rest in self.events if kind == "PARAMETER_INT64" and location == 0]

    @staticmethod
    def region(rest):
        return re.match(r'Region: "([^"]*)"', rest).group(1)

    def nests(self):
        """Every Leave is of the region entered last."""
        open_regions = collections.defaultdict(list)
        for kind, location, _, rest in self.events:
            if kind == "ENTER":
                open_regions[location].append(self.region(rest))
            elif kind == "LEAVE" and (not open_regions[location] or open_regions[location].pop() != self.region(rest)):
                return False
        return not any(open_regions.values())

    def counted_in(self, region, counter):
        """By how much the counter grew in the region, by location."""
        last, before, grown = {}, {}, {}
        for kind, location, _, rest in self.events:
            if kind == "METRIC":
                for name, value in re.findall(r'\("([^"]+)" <\d+>; [^;]*; (\d+)\)', rest) + self.values(rest):
                    if name == counter:
                        last[location] = int(value)
            elif kind in ("ENTER", "LEAVE") and self.region(rest) == region:
                if kind == "ENTER":
                    before[location] = last[location]
                else:
                    grown[location] = last[location] - before[location]
        return grown

    @staticmethod
    def values(rest):
        return re.findall(r'\("([^"]+)" <\d+>; (\d+)\)', rest)


def built(folder, flavour, compiler, sources, flags=()):
    out = folder / f"{sources[-1].stem}-{flavour}{''.join(flags)}"
    done = subprocess.run([f"{compiler}.{flavour}", "-O1", "-Wall", *flags, "-I", HEADER, "-o", out, *sources], cwd=folder, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@unittest.skipUnless(shutil.which("otf2-print"), "otf2-print is not installed")
class Regions(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(run.folder())

    def traced(self, flavour, program, *options):
        experiment = self.folder / f"experiment{len(os.listdir(self.folder))}"
        done = run.Run([*run.launcher(flavour, RANKS), program], experiment, ["--exporter", "none", *options])
        self.assertEqual(done.code, 0, done.explain())
        return Trace(experiment), done

    def check_c(self, trace, queries=0):
        for name, times in STEPS.items():
            self.assertEqual(trace.entered[name], times * RANKS, name)
        for name in ("before", "after", "dark", "never began"):
            self.assertEqual(trace.entered[name], 0, name)
        self.assertEqual(trace.sends, 13 * RANKS)  # those with details off, too
        self.assertEqual(trace.entered["MPI_Get_version"], queries)
        self.assertEqual(trace.levels, [0, 1, 2, 7])
        self.assertTrue(trace.nests())

    def test_c(self):
        for flavour in run.FLAVOURS:
            for flags in ((), ("-no-pie", "-fno-pie")):
                with self.subTest(flavour=flavour, flags=flags):
                    program = built(self.folder, flavour, "mpicc", [SOURCES / "regions.c"], flags)
                    untraced = run.command([*run.launcher(flavour, RANKS), program])
                    self.assertEqual(untraced.returncode, 0, untraced.stderr)
                    trace, done = self.traced(flavour, program, "--calls", "all")
                    self.check_c(trace, queries=RANKS)
                    warnings = "\n".join(done.result["warnings"])
                    for part in ("never began ended where it was not open", "outer ended before regions that began in it", "MPI_Pcontrol(0)"):
                        self.assertIn(part, warnings)
                    self.assertIn("pcontrol_ns=", trace.properties)

    def test_script_of_any_mpi(self):
        """Preloaded by the dispatcher."""
        flavour = run.FLAVOURS[0]
        program = built(self.folder, flavour, "mpicc", [SOURCES / "regions.c"])
        script = self.folder / "job.sh"
        script.write_text("\n".join(["#!/bin/sh", " ".join([*run.launcher(flavour, RANKS), str(program)])]), encoding="ascii")
        script.chmod(0o755)
        experiment = self.folder / "script"
        done = run.Run([script], experiment, ["--exporter", "none"])
        self.assertEqual(done.code, 0, done.explain())
        self.check_c(Trace(experiment))

    def test_cxx_and_counters(self):
        for flavour in run.FLAVOURS:
            program = built(self.folder, flavour, "mpicxx", [SOURCES / "regions_cxx.cpp"], ("-std=c++11",))
            trace, done = self.traced(flavour, program)
            self.assertEqual((trace.entered["solver"], trace.entered["touch"], trace.entered["MPI_Alltoall"]), (10 * RANKS, RANKS, 1))
            self.assertFalse([w for w in done.result["warnings"] if "ollective" in w], "a region is taken for what it is called")
            self.assertTrue(trace.nests())
            for option, name in (("--perf", "PAGE-FAULTS"), ("--papi", "perf::PAGE-FAULTS")):
                with self.subTest(flavour=flavour, option=option):
                    refused = run.command([run.POLTER, "run", option, name, "-o", self.folder / "tried", "--exporter", "none", "true"])
                    if "cannot" in refused.stderr and "counted" in refused.stderr:
                        self.skipTest(refused.stderr.strip())
                    trace, _ = self.traced(flavour, program, option, name)
                    grown = trace.counted_in("touch", name)
                    self.assertEqual(len(grown), RANKS)
                    for pages in grown.values():
                        # Those of the tracer's own memory, at a record, may be among them.
                        self.assertTrue(64 <= pages <= 80, grown)
                    self.assertTrue(trace.nests())

    def test_threads_in_regions_when_the_trace_ends(self):
        for flavour in run.FLAVOURS:
            program = built(self.folder, flavour, "mpicc", [SOURCES / "at_end.c"], ("-pthread",))
            for attempt in range(3):  # the first one is read as a whole
                experiment = self.folder / f"{flavour}{attempt}"
                done = run.Run([*run.launcher(flavour, 1), program], experiment, ["--exporter", "none"])
                self.assertEqual(done.code, 0, done.explain())
                self.assertFalse([w for w in done.result["warnings"] if "ended early" in w or "still writing" in w], done.result["warnings"])
                if attempt == 0:
                    trace = Trace(experiment)
                    self.assertGreater(trace.entered["known"], 0)
                    self.assertTrue(trace.nests())

    def test_threads_before_mpi_init(self):
        """Each has a location once it has a region; of one that computes without any the trace says that it was there."""
        flavour = run.FLAVOURS[-1]
        program = built(self.folder, flavour, "mpicc", [SOURCES.parents[2] / "end_to_end" / "programs" / "threads_before.c"], ("-pthread",))
        done = run.Run([*run.launcher(flavour, 1), program], self.folder / "before", ["--exporter", "none"])
        self.assertEqual(done.code, 0, done.explain())
        trace = Trace(self.folder / "before")
        self.assertGreater(trace.entered["on an early thread"], 0)
        self.assertEqual(len({location for _, location, _, _ in trace.events}), 2)
        told = [w for w in done.result["warnings"] if "before MPI_Init ran for" in w]
        self.assertEqual(len(told), 1, done.result["warnings"])
        self.assertIn("1 thread(s) that were there", told[0])

    def test_fortran(self):
        for flavour in run.FLAVOURS:
            if not shutil.which(f"mpifort.{flavour}"):
                continue
            program = built(self.folder, flavour, "mpifort", [HEADER / "polter.f90", SOURCES / "regions.F90"])
            trace, _ = self.traced(flavour, program)
            self.assertEqual((trace.entered["assembly"], trace.entered["inner"]), (3 * RANKS, 3 * RANKS))
            self.assertEqual(trace.entered["MPI_Barrier"], 4 * RANKS)
            self.assertEqual(trace.levels, [0, 1])

    def test_what_is_recorded(self):
        for flavour in run.FLAVOURS:
            program = built(self.folder, flavour, "mpicc", [SOURCES / "regions.c"])
            for options, functions, regions, said in (
                    ([], {"MPI_Comm_rank": 0, "MPI_Get_version": 0}, True, "queries;pcontrol_ns="),
                    (["--calls", "all", "--exclude", "MPI_Comm_*"], {"MPI_Comm_rank": 0, "MPI_Get_version": RANKS}, True, "functions=MPI_Comm_"),
                    (["--include", "MPI_Comm_size,MPI_Send"], {"MPI_Comm_rank": 0, "MPI_Comm_size": RANKS, "MPI_Get_version": 0}, True, "functions="),
                    (["--calls", "all", "--ranks", "1-7"], {"MPI_Comm_rank": 1, "MPI_Get_version": 1}, None, "ranks=0"),
                    (["--calls", "all", "--window", "100000:"], {"MPI_Comm_rank": 0, "MPI_Get_version": 0}, False, "window=100000:"),
                    (["--calls", "all", "--buffer", "1M"], {"MPI_Comm_rank": RANKS, "MPI_Get_version": RANKS}, True, "pcontrol_ns=")):
                with self.subTest(flavour=flavour, options=options):
                    trace, done = self.traced(flavour, program, *options)
                    for function, times in functions.items():
                        self.assertEqual(trace.entered[function], times, function)
                    self.assertEqual(trace.sends, 13 * RANKS)
                    self.assertEqual(trace.entered["MPI_Sendrecv"], 13 * RANKS)
                    self.assertEqual(trace.entered["step"], {True: 10 * RANKS, False: 0, None: 10}[regions])
                    self.assertTrue(trace.nests())
                    self.assertIn(said, trace.properties)
                    self.assertFalse([w for w in done.result["warnings"] if "no send" in w or "never received" in w])

    def test_wrong_values(self):
        for options, code, part in (
                (["--calls", "more"], 2, "more"), (["--exclude", "MPI_Send"], 2, "cannot be excluded"), (["--exclude", "MPI_Sent"], 2, "no function of MPI"),
                (["--include", "Send"], 2, "no function of MPI"), (["--ranks", "3-1"], 2, "not a list of ranks"),
                (["--ranks", "1,"], 2, "not a list of ranks"), (["--window", "2:1"], 2, "not a window"), (["--window", "5"], 2, "not a window"),
                (["--buffer", "1"], 0, None), (["--buffer", "1G"], 2, "not a size"), (["--perf", "NO-SUCH-EVENT"], 1, "does not know this event"),
                (["--papi", "NO-SUCH-EVENT"], 1, "PAPI does not know this event")):
            with self.subTest(options=options):
                if part is None:
                    continue
                target = self.folder / "never"
                done = run.command([run.POLTER, "run", *options, "-o", target, "--exporter", "none", "true"])
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(part, done.stderr.replace("\n", " "))
                if code == 1:
                    self.assertIn("here can be counted:", done.stderr.replace("\n", " "))
                self.assertFalse(target.exists())


if __name__ == "__main__":
    if not run.FLAVOURS:
        print("SKIP: no MPI is there")
        sys.exit(77)
    unittest.main(verbosity=2)
