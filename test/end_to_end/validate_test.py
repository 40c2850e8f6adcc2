#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter bench bsp and polter validate run with each MPI and print what their JSON promises. Whether the answers are right is a matter of
a quiet machine: ./build/polter validate."""
import json
import os
import pathlib
import pty
import subprocess
import sys
import unittest

import polter_run as p

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from schemas import faults  # noqa: E402


class Bench(unittest.TestCase):
    def bench(self, *words):
        done = p.command([p.POLTER, "bench", "bsp", "--json", "--phases", "7", "--grain", "200us", *words])
        self.assertEqual(0, done.returncode, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual([], faults("bench-bsp", result))
        return result

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
        with p.folder() as folder:
            words = [p.POLTER, "validate", "--json", "--level", "10", "--grain", "1ms", "--seconds", "0.2", "--keep", folder / "k"]
            done = p.command(words)
            self.assertEqual(0, done.returncode, done.stderr)
            # No terminal: the first pair, then a line a minute.
            self.assertIn("case 1 of 1, pair 1 of 10", done.stderr)
            result = json.loads(done.stdout)
            self.check(result)
            self.judge_again(folder, result["cases"][0])

    def check(self, result):
        self.assertEqual("polter.validate/1", result["schema"])
        case = result["cases"][0]
        self.assertEqual(10, len(case["pairs"]))
        self.assertGreater(case["log"]["events"], 10)
        self.assertGreater(case["log"]["recall"], 0.9)
        for answer in ("estimation", "prediction"):
            low, high = case[answer]["time"]["interval_ns"]
            self.assertTrue(low <= case[answer]["time"]["median_ns"] <= high)
        for pair in case["pairs"]:
            # Where other tasks run all the time the loop finds nothing.
            measured = sum(cpu["beyond_ns"] for cpu in pair["event_cost"]["cpus"]) > 0
            self.assertEqual(measured, pair["predicted_ns"] > pair["predicted_by_log_ns"])
            self.assertLessEqual(pair["estimated_ns"], pair["estimated_as_recorded_ns"])
            self.assertGreater(pair["predicted_by_log_ns"], pair["quiet_ns"])
            self.assertLess(pair["estimated_ns"], pair["injected_ns"])
            self.assertLessEqual(pair["quiet_ns"], pair["measured_quiet_ns"])
            for cpu in pair["event_cost"]["cpus"]:
                self.assertGreaterEqual(cpu["beyond_ns"], cpu["hidden_ns"])
        self.assertEqual([], faults("validate", result))
        self.assertNotEqual([], faults("validate", dict(result, pairs="ten")))

    def test_windows(self):
        """Two pairs of runs, each with noise while the other has none, are many pairs."""
        if p.exporter_works():
            self.skipTest("no exporter works here")
        with p.folder() as folder:
            words = ["--period", "5ms", "--level", "10", "--grain", "1ms", "--windows", "50ms", "--pairs", "2", "--seconds", "1.5"]
            done = p.command([p.POLTER, "validate", "--json", *words, "--keep", folder / "k"])
            self.assertEqual(0, done.returncode, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual([], faults("validate", result))
            case = result["cases"][0]
            self.assertEqual(50_000_000, case["windows_ns"])
            self.assertGreaterEqual(len(case["pairs"]), 10)
            self.assertEqual({50_000_000}, {pair["quiet_ns"] for pair in case["pairs"]})
            self.assertTrue(0.2 < case["compared_part"] < 0.9, case["compared_part"])
            # Half of each run has noise, and its log has windows without.
            log = json.loads((folder / "k-1" / "0-complement" / "injected.json").read_text(encoding="utf-8"))
            times = sorted(event["time_ns"] - log["injector"]["begin_ns"] for event in log["sources"][0]["events"] if event["rank"] == 0)
            late = [time for time in times if time // 50_000_000 % 2 == 0 and time % 50_000_000 > 10_000_000]
            self.assertLessEqual(len(late), 0.05 * len(times), late)
            self.judge_again(folder, case)

    def judge_again(self, folder, case):
        """Pairs that were kept give the same answers."""
        again = p.command([p.POLTER, "validate", "--json", "--kept", folder / "k-1"])
        self.assertEqual(0, again.returncode, again.stderr)
        for key in ("pairs", "windows_ns", "estimation", "estimation_as_recorded", "prediction", "log", "hidden"):
            self.assertEqual(case[key], json.loads(again.stdout)["cases"][0][key])
        refused = p.command([p.POLTER, "validate", "--kept", folder])
        self.assertEqual(1, refused.returncode)
        self.assertIn("has no pair of runs", refused.stderr)

    def test_terminal(self):
        """Progress with the time that is left, then the table and the verdict in a sentence."""
        if p.exporter_works():
            self.skipTest("no exporter works here")
        master, slave = pty.openpty()
        words = [p.POLTER, "validate", "--inject", "periodic,period=50ms,duration=2us", "--grain", "1ms", "--seconds", "0.2"]
        with subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=slave, env=p.ENVIRONMENT, text=True) as run:
            os.close(slave)
            said = p.read_terminal(master)
            output = run.stdout.read()
        self.assertEqual(0, run.returncode, said)
        for words in ("case 1 of 1, pair 1 of 10", "pair 10 of 10", "s left"):
            self.assertIn(words, said)
        # How much quiet runs differ is the machine's matter.
        self.assertRegex(output.splitlines()[-1], "^(No verdict: this machine's runs differ by more|(Correct|Partly correct|Wrong) here: )")
        self.assertEqual("No verdict for periodic" in output, output.splitlines()[-1].startswith("No verdict"), output)

    def test_trace(self):
        """The log of any injected run against its trace."""
        if p.exporter_works():
            self.skipTest("no exporter works here")
        with p.folder() as folder:
            job = [*p.launcher(p.FLAVOURS[0], 1), p.PROGRAMS / p.FLAVOURS[0] / "bsp", 30, 4_000_000]
            self.assertEqual(0, p.Run(job, folder / "e", ["--inject", "ferreira-100hz"]).code)
            done = p.command([p.POLTER, "validate", "--trace", folder / "e", "--json"])
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual([], faults("validate", json.loads(done.stdout)))
            self.assertIn("log against trace", p.command([p.POLTER, "validate", "--trace", folder / "e"]).stdout)
            (folder / "e" / "injected.json").unlink()
            refused = p.command([p.POLTER, "validate", "--trace", folder / "e"])
            self.assertEqual(1, refused.returncode)
            self.assertIn("has no log of injected noise", refused.stderr)

    def test_refused(self):
        done = p.command([p.POLTER, "validate", "--level", "95", "--inject", "periodic,period=10ms,load=98%"])
        self.assertEqual(1, done.returncode)
        self.assertIn("at most 95 %", done.stderr)
        self.assertEqual(2, p.command([p.POLTER, "validate", "--pairs", "9"]).returncode)
        for words, said in (("--windows", "1ms"), "too short"), (("--windows", "1s", "--inject", "timers,period=1ms"), "not for timers"):
            done = p.command([p.POLTER, "validate", *words, "--", "false"])
            self.assertEqual(1, done.returncode)
            self.assertIn(said, done.stderr)
        failing = p.command([p.POLTER, "validate", "-q", "--", "false"])
        self.assertEqual(1, failing.returncode)
        self.assertIn("a run of the validation failed", failing.stderr)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    unittest.main(verbosity=2)
