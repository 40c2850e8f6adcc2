#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks run and print what they promise, with as few repetitions as they take: their figures mean nothing here."""
import json
import pathlib
import shutil
import sys
import unittest

import polter_run as p

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
QUARTILES = {"q1", "median", "q3", "samples"}


def bench(name, *options):
    done = p.command([sys.executable, SCRIPTS / "bench.d" / f"{name}.py", *options], {"POLTER_BUILD": str(p.BUILD)})
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Bench(unittest.TestCase):
    def check_calls(self, result, expected=None):
        built = {flavour + language for flavour in p.FLAVOURS for language in ("_fortran", "_fortran_f08")
                 if (p.BUILD / "bench" / flavour / f"bench_mpi_calls{language}").exists()}
        self.assertEqual(set(result), expected or set(p.FLAVOURS) | built)
        for flavour, calls in result.items():
            self.assertEqual(set(calls) - {"two_clock_readings"}, {"send_to_nobody", "irecv_send_wait_to_oneself", "ping_pong_8", "allreduce_8"}, flavour)
            for name, call in calls.items():
                self.assertEqual(set(call["added_ns"]), QUARTILES)
                self.assertEqual(call["added_ns"]["samples"], 2)
                self.assertGreater(call["bare_ns"], 0, name)

    @unittest.skipUnless("openmpi" in p.FLAVOURS and shutil.which("lmp"), "no lmp")
    def test_overhead(self):
        result = bench("overhead", "--pairs", "2", "--steps", "20", "--call-rounds", "2", "--calls", "20", "--page-rounds", "1",
                       "--only", "lammps", "--only", "calls", "--only", "page")
        self.assertEqual(result["schema"], "polter.bench.overhead/1")
        dilation = result["lammps_dilation"]
        self.assertEqual(dilation["pairs"], 2)
        self.assertEqual(set(dilation["percent"]), QUARTILES)
        self.assertEqual(set(dilation["same_binary_twice_percent"]), QUARTILES)
        self.check_calls(result["call_ns"])
        page = result["page"]
        if "not_measured" not in page:
            for figure in ("moved", "snapshot", "clock_gettime"):
                self.assertGreater(page["read"][figure], 0)
                self.assertGreater(page["read_ns"][figure], 0)
            self.assertIn(page["unit"], ("cycles", "ns"))

    def test_overhead_of_cg(self):
        flavour = p.FLAVOURS[-1]
        result = bench("overhead", "--only", "cg", "--cg-rounds", "2", "--cg-box", "4,4,4", "--cg-iterations", "20", "--cg-mpi", flavour)
        self.assertEqual(set(result["cg_rate_lost"]), {flavour})
        rate = result["cg_rate_lost"][flavour]
        self.assertEqual(set(rate["untraced_gflop_per_s"]), QUARTILES)
        self.assertGreater(rate["untraced_gflop_per_s"]["median"], 0)
        self.assertLess(rate["of_best_percent"], 100)
        for key, samples in (("untraced_gflop_per_s", 4), ("percent", 2), ("same_binary_twice_percent", 2)):
            self.assertEqual(rate[key]["samples"], samples)

    def cg(self, flavour, ranks, box, levels, iterations):
        done = p.command([*p.launcher(flavour, ranks), p.BUILD / "bench" / flavour / "bench_cg", "--box", ",".join(map(str, box)),
                          "--levels", str(levels), "--iterations", str(iterations)])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_cg(self):
        """One system on 1, 2 and 4 ranks. Without a preconditioner the iterations are the same; with it the solution is."""
        first, last = p.FLAVOURS[0], p.FLAVOURS[-1]
        boxes = {1: (16, 16, 16), 2: (8, 16, 16), 4: (8, 8, 16)}
        one = self.cg(first, 1, boxes[1], 0, 10)
        for ranks in (2, 4):
            plain = self.cg(first, ranks, boxes[ranks], 0, 10)
            self.assertEqual((plain["levels"], plain["rhs_norm"]), (0, one["rhs_norm"]))
            self.assertLess(plain["residual"], 0.1)
            for key in ("residual", "error"):
                self.assertAlmostEqual(plain[key] / one[key], 1, places=9)
        for flavour, ranks in ((last, 2), (first, 4)):
            solved = self.cg(flavour, ranks, boxes[ranks], 4, 40)
            self.assertEqual((solved["levels"], solved["iterations"], solved["rhs_norm"]), (4, 40, one["rhs_norm"]))
            self.assertLess(solved["residual"], 1e-15)
            self.assertLess(solved["error"], 1e-12)
            self.assertGreater(solved["gflop_per_s"], 0)

    def test_cg_options(self):
        program = p.BUILD / "bench" / p.FLAVOURS[0] / "bench_cg"
        said = json.loads(p.command([program, "--box", "4,4,6", "--iterations", "60"]).stdout)
        self.assertEqual((said["levels"], said["sets"]), (2, 2))  # 3 is odd; 50 iterations are a set
        for wrong in (["--box", "0,1,1"], ["--box", "8"], ["--iterations", "0"], ["--levels"], ["--unknown", "1"]):
            done = p.command([program, *wrong])
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertIn("usage: bench_cg", done.stderr)

    def test_calls(self):
        """One program: test_overhead runs all of them."""
        one = p.FLAVOURS[0]
        self.check_calls(bench("calls", "--rounds", "2", "--calls", "20", "--programs", one)["call_ns"], {one})

    def test_start(self):
        result = bench("start", "--rounds", "2", "--noise-rounds", "2")
        self.assertEqual(result["schema"], "polter.bench.start/1")
        self.assertEqual(set(result["start_ms"]), set(p.FLAVOURS))
        for flavour, runs in result["start_ms"].items():
            self.assertLessEqual({"untraced", "none"}, set(runs), flavour)
            for key in ("wall", "cpu", "whole"):
                self.assertGreater(runs["untraced"][key]["least"], 0)
                self.assertEqual(set(runs["none"]["added_" + key]), QUARTILES | {"of_least"})
        if "not_measured" not in result["noise"]:
            self.assertGreater(result["noise"]["one_second_s"]["least"], 1)
            self.assertGreater(result["noise"]["interrupted_s"]["least"], 0)

    def test_replay(self):
        result = bench("replay", "--part", "0.004", "--rounds", "1", "--most-ranks", "64", "--most-sources", "4")
        self.assertEqual(result["schema"], "polter.bench.replay/1")
        self.assertEqual(set(result["archives"]), {"lammps", "hpcc", "cg", "stencil_64", "allreduce_64", "wavefront_64"})
        for name, archive in result["archives"].items():
            if "left_out" in archive:  # what it needs is not here, or failed: never without a reason
                self.assertRegex(archive["left_out"], "is not installed|is not built|no SimGrid", name)
                print(f"SKIP: {name}: {archive['left_out']}")
                continue
            self.assertGreater(archive["events"], 1000, name)
            self.assertAlmostEqual(archive["command_of_reading"], archive["command_events_per_second"] / archive["read_events_per_second"])
        for by, figures in (("events", 3), ("ranks", 3), ("scenarios", 3), ("processes", 3)):
            growth = result["growth"][by]
            self.assertEqual(len(growth["points"]), figures)
            self.assertEqual([key for key, value in growth["exponents"].items() if value is None], [])
        self.assertEqual([point["scenarios"] for point in result["growth"]["scenarios"]["points"]], [4, 6, 18])
        self.assertEqual([point["processes"] for point in result["growth"]["processes"]["points"]], [1, 2, 4])
        for other in result["other_tools"]:  # a figure of somebody else never stands without where it is from
            self.assertIn(other["kind"], ("published", "measured"))
            self.assertEqual("source" in other, other["kind"] == "published")

    def test_programs(self):
        for words, keys in ((["bench_replay", "--events", "20000", "--ranks", "4", "--rounds", "1"], ("read", "pass_18_lanes", "command")),
                            (["bench_memory", "--events", "20000", "--ranks", "8"], ())):
            with p.folder() as folder:
                done = p.command([p.BUILD / "bench" / words[0], *words[1:]], {"TMPDIR": str(folder)})
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads(done.stdout)
                for key in keys:
                    self.assertGreater(result[key]["events_per_second"], 0)

    def test_too_few_samples(self):
        done = p.command([sys.executable, SCRIPTS / "bench.d" / "overhead.py", "--pairs", "1"])
        self.assertEqual(done.returncode, 2)

    def test_list(self):
        done = p.command([SCRIPTS / "bench"])
        self.assertEqual(done.returncode, 2)
        for name in ("overhead", "calls", "exporter", "start", "replay", "memory", "truth", "disturbance"):
            self.assertIn(name, done.stderr)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
