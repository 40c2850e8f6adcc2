#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A job in what containers are made of: process, network, mount and user namespaces of its own, and a CPU quota. What works there works; what
does not says why."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

import polter_run as p

QUOTA_PERCENT = 60  # of one CPU, for two ranks
PHASES, WORK = 60, 4_000_000


@contextlib.contextmanager
def quota():
    """A function that puts the process that calls it under a CPU quota, and one that tells for how many ns the kernel has throttled it, over
    all CPUs; None where there is none to be had."""
    name = f"polter-test-{os.getpid()}"
    path = None
    for root in (pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup/cpu,cpuacct"), pathlib.Path("/sys/fs/cgroup")):
        with contextlib.suppress(OSError):
            if root.name == "cgroup":
                with contextlib.suppress(OSError):
                    (root / "cgroup.subtree_control").write_text("+cpu")
            (root / name).mkdir()
            path = root / name
            if (path / "cpu.max").exists():
                (path / "cpu.max").write_text(f"{QUOTA_PERCENT * 1000} 100000")
            else:
                (path / "cpu.cfs_period_us").write_text("100000")
                (path / "cpu.cfs_quota_us").write_text(str(QUOTA_PERCENT * 1000))
            # Before all others: on a busy machine it would not come to use up its quota.
            for file, most in (("cpu.weight", 10000), ("cpu.shares", 262144)):
                if (path / file).exists():
                    (path / file).write_text(str(most))
            break
        if path:
            path.rmdir()
            path = None

    def enter():
        (path / "cgroup.procs").write_text(str(os.getpid()))

    def throttled_ns():
        stat = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
        return int(stat["throttled_time"]) if "throttled_time" in stat else int(stat["throttled_usec"]) * 1000

    try:
        yield (enter, throttled_ns) if path else None
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                if path:
                    path.rmdir()
                break
            time.sleep(0.05)


def contained(*words, user=True):
    """With a loopback interface, as containers have."""
    script = 'ip link set lo up 2>/dev/null; exec "$@"'
    return ["unshare", "--fork", "--pid", "--mount-proc", "--net", *(["--user", "--map-root-user"] if user else []), "sh", "-c", script, "sh", *words]


def run(folder, job, environment=None, user=True, under=None):
    words = contained(p.POLTER, "run", "--json", "-o", folder / "e", "--", *job, user=user)
    done = subprocess.run([str(w) for w in words], env=dict(p.ENVIRONMENT, **(environment or {})), capture_output=True, text=True, timeout=p.LIMIT,
                          check=False, preexec_fn=under)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def daemon_of_the_host(folder):
    socket = folder / "s"
    process = subprocess.Popen([str(p.BUILD / "lib" / "polter" / "polterd"), "--foreground", "--socket", str(socket)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if socket.exists() or process.poll() is not None:
                break
            time.sleep(0.02)
        yield {"POLTER_SOCKET": str(socket)} if process.poll() is None else None
    finally:
        process.kill()
        process.wait()


class Container(unittest.TestCase):
    def test_without_the_host(self):
        for flavour in p.FLAVOURS:
            for user in (True, False):
                with self.subTest(flavour=flavour, user=user), p.folder() as folder:
                    result = run(folder, [*p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", 20, 1_000_000], user=user)
                    self.assertEqual(result["ranks"], 2)
                    exporter = result["run"]["exporter"]
                    self.assertIn(exporter["name"], ("perf", "proc"), exporter)
                    self.assertIn("pid namespace of its own", exporter["why"])
                    self.assertIn("give the container its socket", exporter["why"])

    def test_with_the_daemon_of_the_host(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder, daemon_of_the_host(folder) as environment, p.rival(0, 20):
                if environment is None:
                    self.skipTest("polterd does not run here")
                result = run(folder, [*p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", PHASES, WORK], environment)
                self.assertEqual(result["run"]["exporter"]["name"], "bpf")
                preempted = result["per_rank"][0]["sources"]["preempt"]["local_noise_ns"]
                self.assertGreater(preempted, 0.05 * result["measured_ns"])
                culprits = [c["culprit"] for c in result["culprits"] if c["rank"] == 0 and c["source"] == "preempt"]
                self.assertIn("polter-rival", culprits)

    def test_a_cpu_quota_is_throttle(self):
        flavour = p.FLAVOURS[0]
        with quota() as limited, p.folder() as folder, daemon_of_the_host(folder) as environment:
            if limited is None:
                self.skipTest("no cgroup with a CPU quota can be made here")
            if environment is None:
                self.skipTest("polterd does not run here")
            result = run(folder, [*p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", PHASES, WORK], environment, under=limited[0])
            by_kernel = limited[1]()
            throttled = result["sources"]["throttle"]
            print(f"by the kernel {by_kernel}, throttled {throttled['local_noise_ns']}, accumulated {throttled['alone_ns']} of {result['measured_ns']}", file=sys.stderr)
            # Two ranks that want a CPU each have 0.6 of one together: much of the run is waiting for quota. The kernel counts the start and the
            # end of the job too; where both share a CPU one of them waits for the other already when both are throttled.
            together = 2 * throttled["local_noise_ns"]["mean"]
            self.assertGreater(by_kernel, 0.2 * result["measured_ns"])
            self.assertGreater(together, 0.4 * by_kernel)
            self.assertGreater(throttled["alone_ns"], 0.25 * together)
            self.assertTrue(any(c["source"] == "throttle" and c["culprit"].startswith("polter-test-") for c in result["culprits"]), result["culprits"])


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if os.geteuid() != 0 or subprocess.run(contained("true"), capture_output=True, check=False).returncode:
        print("SKIP: no namespaces can be made here")
        sys.exit(77)
    if not shutil.which("ip"):
        print("SKIP: no ip command (Debian package iproute2)")
        sys.exit(77)
    p.go_first()
    unittest.main(verbosity=2)
