#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter quality --follow: what is said of real jobs while they run.

    running_test.py                 what is read while ranks write is never broken, and the job's own trace is as if nobody had looked
    running_test.py Competitor      a job beside a competitor is called slower, because of it, before it ends
"""
import json
import pathlib
import subprocess
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("", "end_to_end")]
import polter_run as p  # noqa: E402
import schemas  # noqa: E402

FLAVOUR = p.FLAVOURS[0] if p.FLAVOURS else None


def job(phases, work, ranks=1):
    return [*p.launcher(FLAVOUR, ranks), p.PROGRAMS / FLAVOUR / "bsp", phases, work]


def followed(history, experiment, size, command, interval, *options):
    """The job's exit code and trace, and the lines of whoever follows it; each with the time at which it came."""
    words = [p.POLTER, "run", "--json", "--record", history, "--size", size, "-o", experiment, *options, "--", *command]
    run = subprocess.Popen([str(w) for w in words], env=dict(p.ENVIRONMENT, **p.said_by_bsp(experiment)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + p.LIMIT
    while not (experiment / "ranks").is_dir() and run.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    follow = p.command([p.POLTER, "quality", "--json", "--follow", experiment, "--size", size, "--interval", interval, history])
    out, error = run.communicate(timeout=p.LIMIT)
    if run.returncode:
        raise AssertionError(error)
    return json.loads(out), follow, [json.loads(line) for line in follow.stdout.splitlines()]


@unittest.skipUnless(FLAVOUR, "no MPI")
class Reading(unittest.TestCase):
    def test_while_ranks_write(self):
        phases = 600000  # many MiB of events, through a buffer that is flushed again and again; so long that it is looked at twice
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "-q", "--record", folder / "history", "--size", 1, "-o", folder / "first", *job(100, 1000, 2)])
            self.assertEqual(done.returncode, 0, done.stderr)
            result, follow, lines = followed(folder / "history", folder / "second", phases, job(phases, 20000, 2), "50ms", "--buffer", "512K")
            self.assertEqual((follow.returncode, follow.stderr), (0, ""))
            self.assertGreater(result["events"], 2 * 2 * phases)
            begun = [line for line in lines if line["totals"]]
            self.assertGreater(len(begun), 1, lines[-1:])
            calls = [line["totals"]["calls"] for line in begun]
            self.assertEqual(calls, sorted(calls), "calls that were recorded are gone")
            self.assertLess(calls[0], calls[-1])
            # As far as the job was by its time, whenever that look was: nothing but what a rank still has in its buffer is missing.
            self.assertGreater(calls[-1], 0.5 * 2 * phases * begun[-1]["now"]["elapsed_ns"] / result["measured_ns"])
            self.assertLess(calls[-1], 1.1 * 2 * phases)
            for line in begun:
                self.assertEqual(schemas.faults("quality", line, "running"), [])
                self.assertEqual((line["now"]["verdict"], line["job"]["processes"]), ("no basis", 2))
                self.assertLessEqual(line["now"]["elapsed_ns"], result["measured_ns"] + 1_000_000_000)
            self.assertIn("too few jobs", begun[-1]["now"]["no_basis"])

    def test_no_job(self):
        with p.folder() as folder:
            p.command([p.POLTER, "run", "-q", "--record", folder / "history", "-o", folder / "first", *job(100, 1000)])
            for what in ("first", "nothing"):  # it has ended; it never was
                done = p.command([p.POLTER, "quality", "--follow", folder / what, folder / "history"])
                self.assertEqual(done.returncode, 1)
                self.assertIn("no running job", done.stderr)


@unittest.skipUnless(FLAVOUR, "no MPI")
class Competitor(unittest.TestCase):
    def test_slower_because_of_it(self):
        why = p.exporter_works()
        if why:
            self.skipTest(why)
        p.go_first()
        command = job(400, 3_000_000)
        with p.folder() as folder:
            for number in range(20):
                done = p.command([p.POLTER, "run", "-q", "--record", folder / "history", "--size", 400, "-o", folder / f"run{number}", *command])
                self.assertEqual(done.returncode, 0, done.stderr)
            with p.rival(0, 100), p.rival(0, 100), p.rival(0, 100):  # a quarter is left of the core
                result, follow, lines = followed(folder / "history", folder / "beside", 400, command, "100ms")
            self.assertEqual(follow.returncode, 0, follow.stderr)
            slower = [line for line in lines if line["now"]["verdict"] == "slower"]
            self.assertTrue(slower, lines[-1:])
            self.assertEqual({line["history"] for line in lines if line["history"]}, {20})
            self.assertLess(slower[0]["now"]["done"], 0.8)
            self.assertLess(slower[0]["now"]["elapsed_ns"], 0.8 * result["measured_ns"])
            self.assertEqual([(c["source"], c["culprit"]) for c in slower[0]["because"][:1]], [("preempt", "polter-rival")])
            self.assertGreater(slower[0]["now"]["late"], 0)


if __name__ == "__main__":
    unittest.main()
