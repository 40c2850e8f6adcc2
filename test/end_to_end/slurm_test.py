#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs under a real Slurm of two nodes on this machine: polter inside the job step and around it, steps that are cancelled or run out of
time, and a node whose daemon dies. Each time there is a trace of both nodes, and it says what it lacks."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import polter_run as p
import slurm

PHASES, WORK = 20, 100_000
LONG_PHASES, LONG_WORK = 300, 4_000_000
LIMIT = 60
MPI_OF_SRUN = {"openmpi": "pmix", "mpich": "pmi2"}
EXEC = [p.POLTER, "exec"]
RUNS_OUT = "--time-limit" in sys.argv  # Slurm looks every half minute, at limits of whole minutes


def soon(what, says):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError(says)


def written(folder, ranks):
    return len([f for f in folder.iterdir() if f.read_text().strip()]) == ranks


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="polter-slurm-")))
        cls.folder.chmod(0o755)
        cls.bed = slurm.Bed(cls.folder)
        cls.addClassCleanup(cls.bed.stop)
        cls.bed.start()

    @contextlib.contextmanager
    def started(self, words, environment=None):
        job = subprocess.Popen([str(w) for w in words], env={**p.ENVIRONMENT, **self.bed.environment, **(environment or {})}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        try:
            yield job
        finally:
            job.kill()
            job.communicate()

    def srun(self, flavour, *options):
        return ["srun", f"--mpi={MPI_OF_SRUN[flavour]}", "--nodes=2", "--ntasks=4", *options]

    def checked(self, experiment, incomplete):
        result = p.replay(experiment)
        self.assertEqual(result["ranks"], 4)
        self.assertEqual({host["host"]: len(host["ranks"]) for host in result["hosts"]}, {name: 2 for name in slurm.NODES})
        self.assertEqual(result["provenance"]["INCOMPLETE"], incomplete, result["warnings"])
        return result

    def test_inside_and_around(self):
        for flavour in p.FLAVOURS:
            for way in ("exec", "run"):
                with self.subTest(flavour=flavour, way=way), p.folder() as folder:
                    folder.chmod(0o755)
                    program = [p.PROGRAMS / flavour / "bsp", PHASES, WORK]
                    if way == "exec":
                        words = [*self.srun(flavour), *EXEC, "-o", folder / "e", *program]
                    else:
                        words = [p.POLTER, "run", "-o", folder / "e", *self.srun(flavour), *program]
                    done = self.bed.run(words, check=False, environment=p.ENVIRONMENT)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.count('"elapsed_ns"'), 1, done.stdout)
                    result = self.checked(folder / "e", "no")
                    self.assertGreater(result["events"], 4 * 2 * PHASES)

    def test_cancelled(self):
        for flavour in p.FLAVOURS:
            for way in ("exec", "run"):
                with self.subTest(flavour=flavour, way=way):
                    self.ended_by_slurm(flavour, way, lambda: self.bed.run(["scancel", "--user=root"]))

    @unittest.skipUnless(RUNS_OUT, "takes two minutes: --time-limit")
    def test_out_of_time(self):
        self.ended_by_slurm(p.FLAVOURS[0], "exec", lambda: None, "--time=1", limit=240)

    def ended_by_slurm(self, flavour, way, act, *options, limit=LIMIT):
        with p.folder() as folder:
            folder.chmod(0o755)
            (folder / "pids").mkdir()
            program = [p.PROGRAMS / flavour / "endless", folder / "pids"]
            if way == "exec":
                words = [*self.srun(flavour, *options), *EXEC, "-o", folder / "e", *program]
            else:
                words = [p.POLTER, "run", "-o", folder / "e", *self.srun(flavour, *options), *program]
            with self.started(words) as job:
                soon(lambda: written(folder / "pids", 4), "the job does not begin")
                act()
                _, error = job.communicate(timeout=limit)
            self.assertNotEqual(job.returncode, 0, error)
            result = self.checked(folder / "e", "yes")
            self.assertGreater(result["events"], 4 * 2)
            self.assertTrue(any("never finalised" in w for w in result["warnings"]), result["warnings"])

    def test_the_daemon_of_one_node_dies(self):
        flavour = p.FLAVOURS[0]
        with p.folder() as folder, contextlib.ExitStack() as daemons:
            folder.chmod(0o755)
            pids = {}
            for name in slurm.NODES:
                words = [p.BUILD / "lib" / "polter" / "polterd", "--foreground", "--socket", folder / f"socket-{name}"]
                process = subprocess.Popen([str(w) for w in words], stderr=subprocess.DEVNULL)
                daemons.callback(process.wait)
                daemons.callback(process.kill)
                pids[name] = process
                soon((folder / f"socket-{name}").exists, "polterd does not start")
            middle = folder / "go-on"
            its_own = ["sh", "-c", f'POLTER_SOCKET={folder}/socket-$(hostname) exec "$0" "$@"']
            words = [*self.srun(flavour), *its_own, *EXEC, "-o", folder / "e", p.PROGRAMS / flavour / "bsp", LONG_PHASES, LONG_WORK]
            with self.started(words, {"BSP_UNTIL": str(middle)}) as job:
                soon(lambda: len([f for f in (folder / "e").glob("ranks/*/rank.jsonl") if '"location"' in f.read_text()]) == 4, "the job does not begin")
                time.sleep(0.5)
                pids[slurm.NODES[1]].send_signal(signal.SIGKILL)
                pids[slurm.NODES[1]].wait()
                time.sleep(1)
                middle.touch()
                output, error = job.communicate(timeout=LIMIT)
            self.assertEqual(job.returncode, 0, error)
            self.assertIn("elapsed_ns", output)
            result = self.checked(folder / "e", "no")
            self.assertIn("polterd ended before the job did", error)
            self.assertTrue(any(f"the exporter ended on {slurm.NODES[1]} " in w for w in result["warnings"]), result["warnings"])
            # The other node was measured to the end.
            measured = {host["host"]: host["local_noise_ns"]["mean"] for host in result["hosts"]}
            self.assertGreater(measured[slurm.NODES[0]], 0)


if __name__ == "__main__":
    if why := slurm.missing():
        print(f"SKIP: {why}")
        sys.exit(77)
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--time-limit"])
