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
TRIES = 4  # the machine may be busy with something else
PHASES, WORK = 300, 4_000_000
NO_PERF = p.PROGRAMS / "polter-no-perf"


def as_user(*words):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--no-new-privs", *words]


def run(folder, flavour, job, prefix=(), options=()):
    """The result as JSON, what the program says of itself, and what was said on the way."""
    folder.chmod(0o777)
    environment = {"HOME": str(folder), "TMPDIR": str(folder), **p.said_by_bsp(folder / "e")}
    words = as_user(*prefix, p.POLTER, "run", "--json", "-o", folder / "e", *options, "--", *p.launcher(flavour, 2), *job)
    done = p.command(words, environment, cwd=folder)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), p.program_json(folder / "e"), done.stderr


def preempt(result, rank):
    return result["per_rank"][rank]["sources"].get("preempt", {}).get("local_noise_ns", 0)


class Unprivileged(unittest.TestCase):
    def disturbed(self, name, prefix, says, options=()):
        for flavour in p.FLAVOURS:
            for left in reversed(range(TRIES)):
                try:
                    with p.folder() as folder, p.rival(1, PERCENT):
                        result, program, error = run(folder, flavour, [p.PROGRAMS / flavour / "bsp", PHASES, WORK], prefix, options)
                        self.check(name, says, folder, result, program, error)
                    break
                except AssertionError as failure:
                    if left == 0:
                        raise
                    print(f"{flavour}: once more: {str(failure).splitlines()[0]}", file=sys.stderr)

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
        self.assertGreater(program["run_delay_ns"][1], 0.1 * result["measured_ns"])
        for rank, delay in enumerate(program["run_delay_ns"]):
            print(f"{name}: rank {rank}: preempt {preempt(result, rank)}, run delay {delay}", file=sys.stderr)
            self.assertLess(preempt(result, rank), 1.02 * delay + 2_000_000)
            # Waits after wake-ups, as at the start of MPI, are much of it where there is no competitor; perf does not see those.
            if rank == 1 or name == "proc":
                self.assertGreater(preempt(result, rank), 0.98 * delay - 2_000_000)
        # The delay of rank 1 is found to be that of the whole job.
        self.assertGreaterEqual(result["accumulated_noise_ns"], 0.8 * preempt(result, 1))
        self.assertEqual({c["culprit"] for c in result["culprits"] if c["source"] == "preempt" and c["culprit"] not in ("?", "unknown")}, set())
        again = p.command([p.POLTER, "replay", folder / "e"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(says, again.stdout + again.stderr)

    def test_perf(self):
        level = int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())
        if level > 2:
            self.skipTest(f"kernel.perf_event_paranoid is {level}: users have no perf here")
        self.disturbed("perf", [], "records of the thread's own switches")

    def test_proc_where_perf_is_refused(self):
        self.disturbed("proc", [NO_PERF], "sum of all waiting for a CPU")

    def test_proc_by_choice(self):
        self.disturbed("proc", [], "sum of all waiting for a CPU", ["--exporter", "proc"])

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
