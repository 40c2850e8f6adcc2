#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The injector where something goes wrong: itself or the job is killed, an ordinary user, too much asked for, a full disk. What happened is
said, no process of it stays, and no task of the job or of the caller has another scheduling policy than before."""
import contextlib
import ctypes
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
USER = 65534
PR_SET_CHILD_SUBREAPER = 36
NOISE = "ferreira-100hz"
LIMIT = 500  # s; that of the whole test is 600


def stat_of(pid):
    """(command name, state); None: it has gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return text[text.index("(") + 1:text.rindex(")")], text.rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def descendants(pid):
    """Those that run: orphans come to this process, see main."""
    found = []
    try:
        children = [int(c) for task in os.listdir(f"/proc/{pid}/task")
                    for c in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split()]
    except OSError:
        return found
    for child in children:
        name = stat_of(child)
        if name and name[1] != "Z":
            found.append((child, name[0]))
        found += descendants(child)
    return found


def named(name):
    return [pid for pid, command in descendants(os.getpid()) if command == name]


def wait_for(condition, looks=1500):
    """Counts looks, not seconds: on a machine that is busy, or that stops this test, those it waits for get no more time than it does."""
    for _ in range(looks):
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def injecting():
    """The worker process exists before the ranks do; its threads, once it injects."""
    return any(len(list(pathlib.Path(f"/proc/{pid}/task").glob("*"))) > 1 for pid in named("polter-inject"))


def injectors():
    return [(pid, name, stat_of(pid)) for pid, name in descendants(os.getpid()) if name in ("polter-inject", "polter-watch", "polter-calls", "polter-packets")]


def kill_all():
    for pid, _ in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Faults(unittest.TestCase):
    def tearDown(self):
        self.assertTrue(wait_for(lambda: not injectors()), injectors())
        kill_all()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
        self.assertEqual(os.SCHED_OTHER, os.sched_getscheduler(0))

    @contextlib.contextmanager
    def job(self, flavour, *specs):
        """A job that runs until it is killed, with noise: (polter run, the ranks' processes, its folder)."""
        with p.folder() as folder:
            (folder / "pids").mkdir()
            options = [word for spec in specs for word in ("--inject", spec)]
            words = [p.POLTER, "run", "--json", *options, "-o", folder / "e", "--", *p.launcher(flavour, 1), p.PROGRAMS / flavour / "endless",
                     folder / "pids"]
            run = subprocess.Popen([str(w) for w in words], env=p.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            pids = folder / "pids" / "0"
            self.assertTrue(wait_for(lambda: pids.exists() and pids.read_text().strip() and injecting()))
            try:
                yield run, [int(pids.read_text())], folder
            finally:
                kill_all()
                run.communicate()

    def events(self, folder):
        return json.loads((folder / "e" / "injected.json").read_text(encoding="utf-8"))["sources"][0]["events"]

    def test_job_killed(self):
        """Whatever ends the job: the log is there."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), self.job(flavour, NOISE) as (run, ranks, folder):
                self.assertTrue(all(os.sched_getscheduler(pid) == os.SCHED_OTHER for pid in (*ranks, run.pid)))
                if p.command(["chrt", "-f", "1", "true"]).returncode == 0:  # else it is not allowed here
                    threads = os.listdir(f"/proc/{named('polter-inject')[0]}/task")
                    self.assertIn(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, [os.sched_getscheduler(int(t)) for t in threads])
                time.sleep(0.3)
                os.kill(ranks[0], signal.SIGKILL)
                output, error = run.communicate(timeout=LIMIT)
                self.assertTrue(output.startswith("{"), error[-2000:])
                self.assertGreater(len(self.events(folder)), 5)
                self.assertEqual([], injectors())

    def test_polter_killed(self):
        with self.job(p.FLAVOURS[0], NOISE) as (run, ranks, _):
            run.kill()
            run.wait(timeout=LIMIT)
            self.assertTrue(wait_for(lambda: not injectors()), injectors())
            self.assertTrue(stat_of(ranks[0]) is None or os.sched_getscheduler(ranks[0]) == os.SCHED_OTHER)

    def test_supervisor_killed(self):
        """The job goes on, and the result says that the noise is not known."""
        with self.job(p.FLAVOURS[0], NOISE) as (run, ranks, folder):
            os.kill(named("polter-watch")[0], signal.SIGKILL)
            self.assertTrue(wait_for(lambda: not injectors()), injectors())
            self.assertIsNotNone(stat_of(ranks[0]))
            os.kill(ranks[0], signal.SIGKILL)
            error = run.communicate(timeout=LIMIT)[1]
            self.assertIn("the injector was killed", error)
            self.assertFalse((folder / "e" / "injected.json").exists())

    def test_worker_killed(self):
        """What was injected until then is known."""
        with self.job(p.FLAVOURS[0], NOISE) as (run, ranks, folder):
            time.sleep(0.3)
            os.kill(named("polter-inject")[0], signal.SIGKILL)
            self.assertTrue(wait_for(lambda: not injectors()), injectors())
            self.assertIsNotNone(stat_of(ranks[0]))
            os.kill(ranks[0], signal.SIGKILL)
            error = run.communicate(timeout=LIMIT)[1]
            self.assertIn("ended by signal 9", error)
            self.assertGreater(len(self.events(folder)), 5)

    def test_ordinary_user(self):
        """As an ordinary task, with a warning, and the log has CPU time."""
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        with p.folder() as folder:
            folder.chmod(0o777)
            user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
            done = p.command([*user, p.POLTER, "inject", "--json", "--seconds", "0.5", "-o", folder / "log.json", f"{NOISE},cpus={CPU}"],
                             {"HOME": str(folder)})
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("real-time priority is not allowed", done.stderr)
            log = json.loads((folder / "log.json").read_text(encoding="utf-8"))
            self.assertEqual("normal", log["injector"]["priority"])
            self.assertTrue(all(e["duration_ns"] >= 250_000 for e in log["sources"][0]["events"]))
            # What needs a privilege that is not there injects nothing, and says which.
            for kind in ("timers", "calls"):
                if int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii")) < 1:
                    continue
                refused = p.command([*user, p.POLTER, "inject", "--seconds", "0.1", f"{kind},period=1ms,cpus={CPU}"], {"HOME": str(folder)})
                self.assertEqual(1, refused.returncode, refused.stdout)
                self.assertIn("perf_event_paranoid", refused.stderr)

    def test_refused_before_the_job(self):
        for spec, words in (("periodic,period=10ms,load=97%", "at most 95 %"), (f"{NOISE},cpus=4000", "CPU 4000 is not there"),
                            ("timers,period=1us", "from 20us")):
            with self.subTest(spec), p.folder() as folder:
                done = p.command([p.POLTER, "run", "--inject", spec, "-o", folder / "e", "--", *p.launcher(p.FLAVOURS[0], 1), "true"])
                self.assertEqual(1, done.returncode)
                self.assertIn(words, done.stderr)
                self.assertFalse((folder / "e").exists())
                alone = p.command([p.POLTER, "inject", "--seconds", "0.1", spec])
                self.assertEqual(1, alone.returncode)
                self.assertIn(words, alone.stderr)

    def test_sum_on_a_cpu(self):
        """Known once the ranks run: the job goes on without the noise, and the result says so."""
        flavour = p.FLAVOURS[0]
        every = "+".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        with p.folder() as folder:
            options = ["--inject", "periodic,period=20ms,load=50%,ranks=0", "--inject", f"periodic,period=20ms,load=50%,cpus={every}"]
            bind = ["--bind-to", "core"] if flavour == "openmpi" else ["-bind-to", "core"]
            run = p.Run([*p.launcher(flavour, 1), *bind, p.PROGRAMS / flavour / "bsp", 5, 4_000_000], folder / "e", options)
            self.assertEqual(0, run.code, run.explain())
            self.assertIn("would take 100 % of CPU", run.error)
            self.assertFalse((folder / "e" / "injected.json").exists())

    def test_bursts_of_two_leave_the_cpu_its_part(self):
        """Two injectors on one CPU at the same time: the second waits until the rest of the CPU's time has passed."""
        with p.folder() as folder:
            burst = f"periodic,period=200ms,duration=80ms,phase=10ms,cpus={CPU}"
            done = p.command([p.POLTER, "inject", "--seconds", "1", "-o", folder / "log.json", burst, f"{burst},name=second"])
            self.assertEqual(0, done.returncode, done.stderr)
            sources = json.loads((folder / "log.json").read_text(encoding="utf-8"))["sources"]
            events = sorted((e["time_ns"], e["time_ns"] + e["duration_ns"]) for source in sources for e in source["events"])
            self.assertGreater(len(events), 6)
            for (_, end), (begin, _) in zip(events, events[1:]):
                self.assertGreaterEqual(begin - end, 4_000_000)  # 80 ms are 95 %

    def test_full_disk(self):
        """The log does not fit: an error, and no half of a log."""
        with p.folder() as folder:
            words = " ".join(str(w) for w in [p.POLTER, "inject", "--seconds", "1", "-o", "log.json", f"periodic,period=1ms,duration=2us,cpus={CPU}"])
            inside = f"mount -t tmpfs -o size=8k none {folder} || exit 77; cd {folder}; {words}; code=$?; ls; exit $code"
            done = p.command(["unshare", "--mount", "sh", "-c", inside])
            if "unshare" in done.stderr or done.returncode == 77:
                self.skipTest("needs a mount of its own")
            self.assertEqual(1, done.returncode)
            self.assertIn("log.json: the log of the injected noise cannot be written: No space left", done.stderr)
            self.assertNotIn("log.json", done.stdout)

    def test_full_disk_of_a_job(self):
        """The disk fills while noise is injected: the job's own exit code, both messages, and no half of a log."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            (folder / "pids").mkdir()
            fill = "n=0; until [ -s pids/0 ] || [ $((n += 1)) -gt 2000 ]; do sleep 0.05; done; sleep 0.3; cat /dev/zero > fill 2>/dev/null; kill -9 $(cat pids/0)"
            words = [p.POLTER, "run", "--inject", "periodic,period=1ms,duration=20us", "-o", "e", "--", *p.launcher(flavour, 1),
                     p.PROGRAMS / flavour / "endless", "pids"]
            run = " ".join(str(w) for w in words)
            inside = f"mount -t tmpfs -o size=6m none {folder} || exit 77; cd {folder}; mkdir pids; ({fill}) & {run}; code=$?; ls e; exit $code"
            done = p.command(["unshare", "--mount", "sh", "-c", inside], limit=LIMIT)
            if "unshare" in done.stderr or done.returncode == 77:
                self.skipTest("needs a mount of its own")
            self.assertIn(done.returncode, (137, 9), done.stderr)
            self.assertIn("injected.json: the log of the injected noise cannot be written: No space left", done.stderr)
            self.assertIn("the trace cannot be put together", done.stderr)
            self.assertNotIn("injected.json", done.stdout)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    unittest.main(verbosity=2)
