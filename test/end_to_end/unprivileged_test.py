#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary user on a node without an exporter: perf, and where that is refused /proc. A competitor's time is found all the same, and the
result says what it cannot tell."""
import json
import os
import pathlib
import sys
import unittest

import polter_run as p

USER = 65534
PERCENT = 20
TRIES = 4
PHASES, WORK = 300, 4_000_000
NAPPING = [30, 1_000_000, -1, 100, 0, 50]
MESSAGES = 30000
SLACK_NS = 2_000_000  # what may pass while readings are taken
NO_PERF = p.PROGRAMS / "polter-no-perf"


def as_user(*words):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--no-new-privs", *words]


def run(folder, flavour, job, prefix=(), options=()):
    """The result as JSON, and what was said on the way."""
    folder.chmod(0o777)
    environment = {"HOME": str(folder), "TMPDIR": str(folder), **p.said_by_bsp(folder / "e")}
    words = as_user(*prefix, p.POLTER, "run", "--json", "-o", folder / "e", *options, "--", *p.launcher(flavour, 2), *job)
    done = p.command(words, environment, cwd=folder)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), done.stderr


def preempt(result, rank):
    return result["per_rank"][rank]["sources"].get("preempt", {}).get("local_noise_ns", 0)


def perf_refused():
    """Why an ordinary user cannot use perf here; None where they can."""
    done = p.command(as_user(p.POLTER, "run", "--exporter", "perf", "-o", "/nowhere/e", "true"))
    return done.stderr.strip().splitlines()[0] if "perf_event_open" in done.stderr else None


class Unprivileged(unittest.TestCase):
    def disturbed(self, name, prefix, says, options=()):
        def attempt(flavour):
            with p.folder() as folder, p.rival(1, PERCENT):
                result, error = run(folder, flavour, [p.PROGRAMS / flavour / "bsp", PHASES, WORK], prefix, options)
                self.check(name, says, folder, result, p.program_json(folder / "e"), error)

        p.on_each_mpi(attempt, TRIES)

    def check(self, name, says, folder, result, program, error):
        exporter = result["run"]["exporter"]
        self.assertEqual(exporter["name"], name, exporter)
        self.assertIn(says, exporter["limits"])
        self.assertIn("timer", exporter["unseen"])
        self.assertNotIn("preempt", exporter["unseen"])
        self.assertIn(f"exporter {name}", error)
        # Whoever replays the trace later is told too.
        self.assertEqual(result["provenance"]["EXPORTER"], name)
        self.assertTrue(any(says in w for w in result["warnings"]), result["warnings"])
        self.assertGreater(program["ranks"][1]["preempted_ns"], 25 * SLACK_NS)  # enough to look at
        self.agree(name, result, program)
        # The delay of the job is found: bsp knows how long each phase's slowest rank was preempted. What else the ranks waited for, and
        # may have propagated, is allowed for.
        delay = program["delay_ns"]
        other = sum(preempt(result, rank) - account["preempted_ns"] for rank, account in enumerate(program["ranks"]))
        print(f"{name}: accumulated {result['accumulated_noise_ns']}, by the program {delay}", file=sys.stderr)
        self.assertGreaterEqual(result["accumulated_noise_ns"], 0.9 * delay - SLACK_NS)
        self.assertLessEqual(result["accumulated_noise_ns"], 1.1 * delay + max(other, 0) + SLACK_NS)
        self.assertEqual({c["culprit"] for c in result["culprits"] if c["source"] == "preempt" and c["culprit"] != "unknown"}, set())
        again = p.command([p.POLTER, "replay", "-v", folder / "e"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(says, " ".join((again.stdout + again.stderr).split()))  # lines may be wrapped within it

    def agree(self, name, result, program):
        """Each rank's preemption is what the kernel says of the same: perf sees switches away while runnable, proc all waiting for a CPU."""
        for rank, account in enumerate(program["ranks"]):
            least, most = p.preempted_bounds(account)
            if name == "proc":
                least, most = least + account["woken_ns"], account["run_delay_ns"]
            print(f"{name}: rank {rank}: preempt {preempt(result, rank)}, by the kernel {least} to {most} of {account}", file=sys.stderr)
            self.assertGreater(preempt(result, rank), 0.98 * least - SLACK_NS)
            self.assertLess(preempt(result, rank), 1.02 * most + SLACK_NS)

    def other_waits(self, name, job, prefix=(), options=()):
        """Waits that are not preemption, as they come from the machine elsewhere: rank 1 sleeps beside a competitor."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder, p.rival(1, 60, 2000):
                result, _ = run(folder, flavour, [p.PROGRAMS / flavour / "bsp", *job], prefix, options)
                program = p.program_json(folder / "e")
                self.agree(name, result, program)
                yield program

    def needs_perf(self):
        refused = perf_refused()
        if refused:
            self.skipTest("users have no perf here: " + refused)

    def test_perf_beside_waits_after_wake_ups(self):
        self.needs_perf()
        for program in self.other_waits("perf", NAPPING, options=["--exporter", "perf"]):
            self.assertGreater(program["ranks"][1]["woken_ns"], 4 * SLACK_NS)

    def test_proc_with_waits_after_wake_ups(self):
        for program in self.other_waits("proc", NAPPING, options=["--exporter", "proc"]):
            self.assertGreater(program["ranks"][1]["woken_ns"], 4 * SLACK_NS)

    def test_perf_beside_waits_for_its_own_job(self):
        """Both ranks and the competitor on one CPU: perf does not tell whom a rank waits for, and yields are no preemption."""
        self.needs_perf()
        one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        for _ in self.other_waits("perf", [20, WORK], one, ["--exporter", "perf"]):
            pass

    def test_perf(self):
        self.needs_perf()
        self.disturbed("perf", [], "records of the thread's own switches")

    def test_proc_where_perf_is_refused(self):
        self.disturbed("proc", [NO_PERF], "sum of all waiting for a CPU")

    def test_proc_by_choice(self):
        self.disturbed("proc", [], "sum of all waiting for a CPU", ["--exporter", "proc"])

    def test_short_calls_do_not_pay_for_it(self):
        """Reading /proc costs more than a short MPI call: it is done now and then, not in each call. perf reads no file at all."""
        names = ["none", "proc"] + ([] if perf_refused() else ["perf"])
        for flavour in p.FLAVOURS:
            reads = {}
            for name in names:
                with p.folder() as folder:
                    run(folder, flavour, [p.PROGRAMS / flavour / "messages", MESSAGES, folder], options=["--exporter", name])
                    reads[name] = [int((folder / str(rank)).read_text()) for rank in range(2)]
            print(f"{flavour}: files read in {3 * MESSAGES} calls: {reads}", file=sys.stderr)
            if min(reads["none"]) < 0:
                self.skipTest("this kernel does not count what a thread reads")
            for name in names[1:]:
                self.assertLess(max(reads[name]), max(reads["none"]) + 3 * MESSAGES // 10, name)

    def test_perf_refused_by_name(self):
        with p.folder() as folder:
            folder.chmod(0o777)
            done = p.command(as_user(NO_PERF, p.POLTER, "run", "--exporter", "perf", "-o", folder / "e", "true"), cwd=folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("perf_event_open", done.stderr)
            self.assertIn("available here: auto, proc, none", done.stderr)
            self.assertEqual(list(folder.iterdir()), [])

    def test_each_process_of_a_launcher_finds_its_own(self):
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            folder.chmod(0o777)
            job = as_user(*p.launcher(flavour, 2), p.POLTER, "exec", "--json", "-o", folder / "e", p.PROGRAMS / flavour / "bsp", 5, 10000)
            done = p.command(job, {"HOME": str(folder), "TMPDIR": str(folder)}, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertIn(result["provenance"]["EXPORTER"], ("perf", "proc"))
            self.assertEqual(result["ranks"], 2)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if os.geteuid() != 0:
        print("SKIP: becoming an ordinary user needs root")
        sys.exit(77)
    if len(os.sched_getaffinity(0)) < 2:
        print("SKIP: one CPU only: a competitor cannot be kept to one rank")
        sys.exit(77)
    if p.command(as_user(p.POLTER, "--version")).returncode:
        print("SKIP: an ordinary user cannot reach the build folder here")
        sys.exit(77)
    if pathlib.Path("/run/polter/polterd.sock").exists():
        print("SKIP: this node has an exporter")
        sys.exit(77)
    p.go_first()
    unittest.main(verbosity=2)
