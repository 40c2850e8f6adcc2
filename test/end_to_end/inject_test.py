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

    def test_full_disk(self):
        with p.folder() as folder:
            run = [p.POLTER, "inject", "--seconds", "1", "-o", "log.json", f"periodic,period=1ms,duration=2us,cpus={CPU}"]
            words = " ".join(str(w) for w in run)
            done = p.command(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=8k none {folder} || exit 77; cd {folder}; {words}"])
            if "unshare" in done.stderr or done.returncode == 77:
                self.skipTest("needs a mount of its own")
            self.assertEqual(1, done.returncode)
            self.assertIn("log.json: the log of the injected noise cannot be written: No space left", done.stderr)

    def test_without_privilege(self):
        """As an ordinary task, with a warning, and the log has CPU time."""
        if os.geteuid() != 0:
            self.skipTest("needs root to give up the right")
        run = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", p.POLTER, "inject", "--json", "--seconds", "0.5", f"ferreira-100hz,cpus={CPU}"]
        done = p.command(run)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("real-time priority is not allowed", done.stderr)
        self.assertEqual("normal", json.loads(done.stdout)["injector"]["priority"])


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

    def test_delays(self):
        """Inside of calls: as many as calls, in a log of their own, and no noise of the injector."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                job = [f"mpirun.{flavour}", "-n", "2", p.PROGRAMS / flavour / "bsp", 50, 100_000]
                run = p.Run(job, folder / "e", ["--delay", "mpi,probability=1,mean=1ms,sigma=100us"])
                self.assertEqual(0, run.code, run.explain())
                self.assertFalse((folder / "e" / "injected.json").exists())
                for rank in range(2):
                    lines = [json.loads(line) for line in (folder / "e" / f"delays.{rank}.jsonl").read_text(encoding="utf-8").splitlines()]
                    self.assertEqual([rank, len(lines) - 1], [lines[0]["rank"], lines[0]["delays"]])
                    delays = [line for line in lines[1:] if line["call"] == "MPI_Allreduce"]
                    self.assertEqual(50, len(delays))
                    self.assertGreater(run.result["measured_ns"], sum(d["duration_ns"] for d in delays))
                self.assertEqual([], [c for c in run.result.get("culprits", []) if c["culprit"] == "polter-inject"])

    def test_timers(self):
        """A storm of timer interrupts is timer noise, and there is no task that took the CPU."""
        if p.exporter_works():
            self.skipTest("no exporter works here")
        with p.folder() as folder:
            run = self.run_job(p.FLAVOURS[0], folder, "timers,period=200us,ranks=0")
            self.assertEqual(0, run.code, run.explain())
            storm = json.loads((folder / "e" / "injected.json").read_text(encoding="utf-8"))["injector"]["interrupts"][0]
            self.assertGreater(storm["caused"], 100)
            counts = {}
            for c in run.result["culprits"]:
                counts[c["source"]] = counts.get(c["source"], 0) + c["events"]
            # The storm begins with the launcher, on each CPU that the rank may use, and the rank is hit where and while it runs: how much of
            # it the ranks saw depends on the machine. But ticks alone come 1000 times a second at most.
            running = 1 - run.program_json()["ranks"][0]["run_delay_ns"] / run.result["measured_ns"]
            self.assertGreater(counts.get("timer", 0), 2 * running * run.result["measured_ns"] / 1e6)
            self.assertLessEqual(counts["timer"], storm["caused"] + 2 * 1.1 * run.result["measured_ns"] / 1e6)

    def test_rank_that_is_not_there(self):
        with p.folder() as folder:
            run = self.run_job(p.FLAVOURS[0], folder, "ferreira-100hz,ranks=5", 5)
            self.assertEqual(0, run.code, run.explain())
            self.assertIn("rank 5 is not among", run.error)

    def test_refused_before_the_job(self):
        with p.folder() as folder:
            run = self.run_job(p.FLAVOURS[0], folder, "periodic,period=10ms,load=97%", 5)
            self.assertEqual(1, run.code)
            self.assertIn("at most 95 %", run.error)
            self.assertFalse((folder / "e").exists())


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    unittest.main(verbosity=2)
