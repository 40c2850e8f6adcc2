#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter bench bsp and polter validate run with each MPI and print what their JSON promises. Whether the answers are right is a matter of
a quiet machine: ./build/polter validate."""
import json
import sys
import unittest

import polter_run as p


class Bench(unittest.TestCase):
    def bench(self, *words):
        done = p.command([p.POLTER, "bench", "bsp", "--json", "--phases", "7", "--grain", "200us", *words])
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_workloads(self):
        for flavour in p.FLAVOURS:
            for workload in ("work", "time", "dgemm", "spmv", "hpcg"):
                with self.subTest(f"{flavour} {workload}"):
                    result = self.bench("--mpi", flavour, "--workload", workload, "--halo", "10")
                    self.assertEqual("polter.bench.bsp/1", result["schema"])
                    self.assertEqual([7, 7], [len(result["slowest_work_ns"]), len(result["longest_wait_ns"])])
                    self.assertGreaterEqual(result["elapsed_ns"], sum(result["slowest_work_ns"]) // 2)

    def test_launcher_decides(self):
        for flavour in p.FLAVOURS:
            for collective in ("allreduce", "alltoall", "none"):
                result = self.bench("--units", "5", "--collective", collective, "--imbalance", "50", f"mpirun.{flavour}", "-n", "3")
                self.assertEqual([3, 5, collective], [result["ranks"], result["units"], result["collective"]])

    def test_wrong(self):
        done = p.command([p.POLTER, "bench", "bsp", "--grain", "soon"])
        self.assertEqual(1, done.returncode)
        self.assertIn("soon", done.stderr)
        self.assertEqual(2, p.command([p.POLTER, "bench", "lottery"]).returncode)


class Validate(unittest.TestCase):
    def test_json(self):
        if p.exporter_works():
            self.skipTest("no exporter works here")
        done = p.command([p.POLTER, "validate", "--json", "-q", "--level", "10", "--grain", "1ms", "--seconds", "0.2"])
        self.assertEqual(0, done.returncode, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual("polter.validate/1", result["schema"])
        case = result["cases"][0]
        self.assertEqual(10, len(case["pairs"]))
        self.assertGreater(case["log"]["events"], 10)
        self.assertGreater(case["log"]["recall"], 0.9)
        for answer in ("estimation", "prediction"):
            low, high = case[answer]["time"]["interval_ns"]
            self.assertTrue(low <= case[answer]["time"]["median_ns"] <= high)

    def test_refused(self):
        done = p.command([p.POLTER, "validate", "--level", "95", "--inject", "periodic,period=10ms,load=98%"])
        self.assertEqual(1, done.returncode)
        self.assertIn("at most 95 %", done.stderr)
        failing = p.command([p.POLTER, "validate", "-q", "--", "false"])
        self.assertEqual(1, failing.returncode)
        self.assertIn("a run of the validation failed", failing.stderr)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    unittest.main(verbosity=2)
