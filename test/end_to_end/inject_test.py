#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter inject and polter run --inject on this machine: events are logged and found again in the trace; the injector ends with its job
and with whoever started it, and leaves no process behind."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import polter_run as p

CPU = max(os.sched_getaffinity(0))


def children(pid):
    return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition, seconds=20):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()


def threads(pid):
    return [int(t) for t in os.listdir(f"/proc/{pid}/task")]


class Alone(unittest.TestCase):
    def test_log(self):
        with p.folder() as folder:
            done = p.command([p.POLTER, "inject", "--seconds", "1", "-o", folder / "log.json", f"periodic,period=20ms,duration=1ms,cpus={CPU}"])
            self.assertEqual(0, done.returncode, done.stderr)
            log = json.loads((folder / "log.json").read_text(encoding="utf-8"))
            events = log["sources"][0]["events"]
            self.assertGreater(len(events), 5)
            self.assertTrue(all(e["duration_ns"] >= 1_000_000 and e["cpu"] == CPU and e["rank"] == 0 for e in events))
            self.assertTrue(all(a["time_ns"] + a["duration_ns"] <= b["time_ns"] for a, b in zip(events, events[1:])))

    def test_published_patterns(self):
        """By name, at the same time."""
        wanted = {"ferreira-10hz": (100, 2_500_000), "ferreira-100hz": (10, 250_000), "ferreira-1khz": (1, 25_000)}
        for name, (period_ms, duration_ns) in wanted.items():
            done = p.command([p.POLTER, "inject", "--seconds", "0.5", "--json", f"{name},cpus={CPU}"])
            self.assertEqual(0, done.returncode, done.stderr)
            (source,) = json.loads(done.stdout)["sources"]
            self.assertEqual(name, source["name"])
            starts = [e["time_ns"] for e in source["events"]]
            self.assertGreaterEqual(len(starts), 2)
            self.assertLessEqual(len(starts), 500 / period_ms + 1)
            self.assertTrue(all(e["duration_ns"] >= duration_ns for e in source["events"]))
            self.assertAlmostEqual(period_ms, sorted(b - a for a, b in zip(starts, starts[1:]))[len(starts) // 2 - 1] / 1e6, delta=0.2)

    def test_more_events_than_the_ring_holds(self):
        """Those of a log have no period: they are taken as fast as they come."""
        with p.folder() as folder:
            events = [{"rank": 0, "time_ns": (i + 1) * 150_000, "duration_ns": 2_000} for i in range(6000)]
            (folder / "dense.json").write_text(json.dumps({"schema": "polter.inject/1", "sources": [{"name": "dense", "events": events}]}), encoding="utf-8")
            done = p.command([p.POLTER, "inject", "--json", "--seconds", "1", f"replay,file={folder}/dense.json,cpus={CPU}"])
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertEqual(6000, len(json.loads(done.stdout)["sources"][0]["events"]))

    def start(self, folder):
        run = subprocess.Popen([p.POLTER, "inject", "--seconds", "100", "-o", folder / "log.json", f"ferreira-100hz,cpus={CPU}"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_for(lambda: children(run.pid) and len(threads(children(run.pid)[0])) == 2))
        return run, children(run.pid)[0]

    def test_stopped(self):
        """Ctrl-C: the log is complete."""
        with p.folder() as folder:
            run, worker = self.start(folder)
            time.sleep(0.2)
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=30)
            self.assertEqual(0, run.returncode)
            self.assertTrue(ended(worker))
            self.assertGreater(len(json.loads((folder / "log.json").read_text(encoding="utf-8"))["sources"][0]["events"]), 0)

    def test_supervisor_killed(self):
        with p.folder() as folder:
            run, worker = self.start(folder)
            run.kill()
            run.communicate(timeout=30)
            self.assertTrue(wait_for(lambda: ended(worker)))

    def test_worker_killed(self):
        """What was injected until then is in the log, and the error says so."""
        with p.folder() as folder:
            run, worker = self.start(folder)
            time.sleep(0.2)
            os.kill(worker, signal.SIGKILL)
            error = run.communicate(timeout=30)[1]
            self.assertEqual(1, run.returncode)
            self.assertIn("ended by signal 9", error)
            self.assertGreater(len(json.loads((folder / "log.json").read_text(encoding="utf-8"))["sources"][0]["events"]), 0)


class OfAJob(unittest.TestCase):
    def run_job(self, flavour, folder, spec, phases=200):
        bind = ["--bind-to", "core"] if flavour == "openmpi" else ["-bind-to", "core"]
        job = [f"mpirun.{flavour}", "-n", "1", *bind, p.PROGRAMS / flavour / "bsp", phases, 4_000_000]
        return p.Run(job, folder / "e", ["--inject", spec])

    def test_found_again(self):
        if p.exporter_works():
            self.skipTest("no exporter works here")
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                run = self.run_job(flavour, folder, "periodic,period=10ms,duration=500us,ranks=0")
                self.assertEqual(0, run.code, run.explain())
                events = json.loads((folder / "e" / "injected.json").read_text(encoding="utf-8"))["sources"][0]["events"]
                self.assertGreater(len(events), 10)
                end = run.result["measured_ns"]
                inside = [e for e in events if e["time_ns"] + e["duration_ns"] < end]
                self.assertGreater(len(inside), len(events) * 0.9)
                recorded = sum(c["local_ns"] for c in run.result["culprits"] if c["source"] == "preempt" and c["culprit"] == "polter-inject")
                self.assertGreater(recorded, 0.9 * sum(e["duration_ns"] for e in inside))
                replayed = p.command([p.POLTER, "replay", "-q", "--json", "--inject", folder / "e" / "injected.json", folder / "e"])
                self.assertEqual(0, replayed.returncode, replayed.stderr)
                self.assertGreater(json.loads(replayed.stdout)["injected"]["added_ns"], 0)

    def test_replayed(self):
        """The noise of a noisy run, and what it has beyond a quiet one, as real noise again."""
        if p.exporter_works():
            self.skipTest("no exporter works here")
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            noisy, quiet = folder / "noisy", folder / "quiet"
            noisy.mkdir()
            quiet.mkdir()
            run = self.run_job(flavour, noisy, "ferreira-100hz,ranks=0", 100)
            self.assertEqual(0, run.code, run.explain())
            job = [f"mpirun.{flavour}", "-n", "1", p.PROGRAMS / flavour / "bsp", 100, 4_000_000]
            self.assertEqual(0, p.Run(job, quiet / "e").code)
            end = run.result["measured_ns"]
            injected = [e for e in json.loads((noisy / "e" / "injected.json").read_text(encoding="utf-8"))["sources"][0]["events"] if e["time_ns"] < end]
            again = {}
            for name, minus in (("all", ""), ("beyond", f",minus={quiet}/e")):
                done = p.command([p.POLTER, "inject", "--json", "--seconds", f"{end / 1e9 + 1:.3f}", f"replay,file={noisy}/e{minus},cpus={CPU}"])
                self.assertEqual(0, done.returncode, done.stderr)
                again[name] = json.loads(done.stdout)["sources"][0]["events"]
            # What the injector took is not in the quiet run; ticks are in both.
            for events in again.values():
                self.assertGreaterEqual(sum(e["duration_ns"] > 250_000 for e in events), 0.9 * len(injected))
            self.assertLess(len(again["beyond"]), len(again["all"]))

    def test_rank_that_is_not_there(self):
        with p.folder() as folder:
            run = self.run_job(p.FLAVOURS[0], folder, "ferreira-100hz,ranks=5", 5)
            self.assertEqual(0, run.code, run.explain())
            self.assertIn("rank 5 is not among", run.error)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    unittest.main(verbosity=2)
