#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exporter's daemon and the job: one that dies in the middle leaves the application alone, and the trace and the result say when; one
that serves a job waits for it."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import polter_run as p

LIMIT = 60
PHASES, WORK = 300, 4_000_000  # some seconds
NEAR_NS = 400_000_000          # a rank's page moves at each timer interrupt, but the machine may be busy
NOTICED = 1                    # s in which launcher and ranks see that the daemon has gone


def soon(what, says):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if (found := what()):
            return found
        time.sleep(0.02)
    raise AssertionError(says)


def daemon_of(pid):
    """The polterd that this process started."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "polterd":
                return int(child)
    return None


def end(pid, how):
    """Ends the daemon, and returns when it was told to. On return it has gone, and whoever looks has had time to see it."""
    told = time.monotonic_ns()
    os.kill(pid, how)

    def gone():
        with contextlib.suppress(OSError):
            # The leader can be gone while another thread still closes the shared descriptors, and with them detaches the BPF programs.
            alone = len(os.listdir(f"/proc/{pid}/task")) == 1
            return alone and pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
        return True

    soon(gone, "polterd does not end")
    time.sleep(NOTICED)
    return told


def ranks_that_began(experiment):
    return len([f for f in experiment.glob("ranks/*/rank.jsonl") if '"location"' in f.read_text()])


@contextlib.contextmanager
def daemon(folder):
    """A daemon that no launcher started."""
    socket = folder / "socket"
    process = subprocess.Popen([str(p.BUILD / "lib" / "polter" / "polterd"), "--foreground", "--socket", str(socket)], stderr=subprocess.DEVNULL)
    try:
        soon(socket.exists, "polterd does not start")
        yield process.pid, {"POLTER_SOCKET": str(socket)}
    finally:
        process.kill()
        process.wait()


class Exporter(unittest.TestCase):
    def ended(self, folder, how, job, find, environment=None):
        """Runs the job, ends the daemon in its middle. The result, and what was on standard error."""
        middle = folder / "go-on"  # the job waits for it after half of its phases
        run = subprocess.Popen([str(w) for w in job], env=dict(p.ENVIRONMENT, BSP_UNTIL=str(middle), **(environment or {})),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            soon(lambda: ranks_that_began(folder / "e") == 2, "the job does not begin")
            time.sleep(0.3)
            told = end(find(run.pid), how)
            middle.touch()
            seen = time.monotonic_ns()
            output, error = run.communicate(timeout=LIMIT)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 0, error)
        result = json.loads(output)
        self.assertEqual(result["ranks"], 2)
        # The application did all its work.
        self.assertGreater(result["events"], 2 * 2 * PHASES)
        self.assertIn("elapsed_ns", error)
        # There is noise until then, and it is known to be missing later.
        self.assertGreater(result["local_noise_ns"]["mean"], 0)
        ended = int(result["provenance"]["MEASURING_ENDED_NS"])
        self.assertLess(told - NEAR_NS, ended)
        self.assertLess(ended, seen)
        self.assertTrue(any("the exporter ended" in w and "before it ends" in w for w in result["warnings"]), result["warnings"])
        self.assertEqual(result["provenance"]["INCOMPLETE"], "no")
        return result, error

    def job(self, folder, flavour, *options):
        return [p.POLTER, "run", "--json", "-o", folder / "e", *options, *p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", PHASES, WORK]

    def test_own_daemon_ends(self):
        for flavour in p.FLAVOURS:
            for how in (signal.SIGKILL, signal.SIGTERM):
                with self.subTest(flavour=flavour, signal=how), p.folder() as folder:
                    _, error = self.ended(folder, how, self.job(folder, flavour), daemon_of)
                    self.assertIn("polterd ended before the job did" + (" (signal 9)" if how == signal.SIGKILL else " (exit code 0)"), error)

    def test_foreign_daemon_killed(self):
        with p.folder() as folder, daemon(folder) as (pid, environment):
            result, error = self.ended(folder, signal.SIGKILL, self.job(folder, p.FLAVOURS[0]), lambda _: pid, environment)
            self.assertIn("polterd runs on", result["run"]["exporter"]["why"])
            self.assertIn("polterd ended before the job did", error)

    def test_killed_under_exec(self):
        """Nobody but the ranks can tell."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder, daemon(folder) as (pid, environment):
            job = [*p.launcher(flavour, 2), p.POLTER, "exec", "--json", "-o", folder / "e", p.PROGRAMS / flavour / "bsp", PHASES, WORK]
            self.ended(folder, signal.SIGKILL, job, lambda _: pid, environment)

    def test_all_killed(self):
        """No rank is left to tell: the launcher does."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            pids = folder / "pids"
            pids.mkdir()
            words = [p.POLTER, "run", "--json", "-o", folder / "e", *p.launcher(flavour, 2), p.PROGRAMS / flavour / "endless", pids]
            run = subprocess.Popen([str(w) for w in words], env=p.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                soon(lambda: len([f for f in pids.iterdir() if f.read_text().strip()]) == 2, "the job does not begin")
                told = end(daemon_of(run.pid), signal.SIGKILL)
                seen = time.monotonic_ns()
                for file in pids.iterdir():
                    os.kill(int(file.read_text()), signal.SIGKILL)
                output, error = run.communicate(timeout=LIMIT)
            finally:
                run.kill()
            properties = json.loads(output)["provenance"]
            self.assertLess(told - NEAR_NS, int(properties["MEASURING_ENDED_NS"]), error)
            self.assertLess(int(properties["MEASURING_ENDED_NS"]), seen, error)
            self.assertEqual(properties["INCOMPLETE"], "yes")

    def test_a_whole_run_says_nothing(self):
        with p.folder() as folder:
            run = p.Run([*p.launcher(p.FLAVOURS[0], 2), p.PROGRAMS / p.FLAVOURS[0] / "bsp", 5, 10000], folder / "e")
            self.assertEqual(run.code, 0, run.explain())
            self.assertNotIn("MEASURING_ENDED_NS", run.result["provenance"])
            self.assertNotIn("ended", run.error)
            self.assertGreaterEqual(run.result["run"]["exporter"]["events_not_shown"], 0)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make what another user would")
    def test_names_that_another_user_took_first(self):
        """Whatever lies in the temporary folder under a name that could be foreseen, and whoever has XDG_RUNTIME_DIR."""
        other = 65533

        def fnv1a(text):
            out = 0xCBF29CE484222325
            for c in text.encode():
                out = (out ^ c) * 0x100000001B3 % 2**64
            return out

        def measured_by(folder, name, environment, step="0"):
            launcher = {"SLURM_JOB_ID": f"polter-test-{os.getpid()}", "SLURM_STEP_ID": step, "SLURM_STEP_NUM_TASKS": "1"}
            unset = [word for variable in launcher for word in ("-u", variable)]
            script = f'echo "$POLTER_SOCKET" >{folder}/socket; exec "$0" "$@"'
            job = ["sh", "-c", script, p.PROGRAMS / p.FLAVOURS[0] / "bsp", 2, 1000]
            done = p.command([p.POLTER, "exec", "--json", "-o", folder / name, "env", *unset, *job], {**launcher, **environment})
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["run"]["exporter"]["name"], (folder / "socket").read_text().strip()

        with p.folder() as folder:
            expected, _ = measured_by(folder, "expected", {"XDG_RUNTIME_DIR": ""}, "1")
            taken = pathlib.Path(f"/tmp/polter-{os.getuid()}-{fnv1a(f'polter-test-{os.getpid()}.0'):016x}")
            foreign = folder / "foreign"
            foreign.mkdir(mode=0o700)
            os.chown(foreign, other, other)
            (folder / "link").symlink_to(folder)
            (folder / "open").mkdir()
            (folder / "open").chmod(0o777)
            try:
                taken.mkdir()
                os.chown(taken, other, other)
                for number, runtime in enumerate(("", foreign, folder / "link", folder / "open", folder / "nowhere")):
                    with self.subTest(runtime):
                        name, socket = measured_by(folder, f"e{number}", {"XDG_RUNTIME_DIR": str(runtime)})
                        self.assertEqual(name, expected)
                        if socket and runtime:
                            self.assertFalse(socket.startswith(str(runtime)), socket)
            finally:
                taken.rmdir()

    def test_daemon_waits_for_the_job(self):
        """A script may do other things first, for longer than an unused daemon stays, and between its MPI programs."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            program = p.PROGRAMS / flavour / "bsp"
            run = p.Run(["sh", "-c", f"sleep 5; exec {' '.join(p.launcher(flavour, 2))} {program} 20 {WORK}"], folder / "e", ["--mpi", flavour])
            self.assertEqual(run.code, 0, run.explain())
            self.assertGreater(run.result["local_noise_ns"]["mean"], 0, run.explain())

    def test_daemon_and_its_folder_go_with_the_job(self):
        """That of `polter run` at once, that of `polter exec`, which belongs to no one process, by itself; and if polter is killed too."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            runtime = folder / "r"  # others may use polter on this machine, too
            runtime.mkdir(mode=0o700)
            environment = {"XDG_RUNTIME_DIR": str(runtime)}
            job = [*p.launcher(flavour, 1), p.PROGRAMS / flavour / "bsp", 2, 1000]
            self.assertEqual(p.Run(job, folder / "e", environment=environment).code, 0)
            self.assertEqual(list(runtime.iterdir()), [])
            script = f"echo $POLTER_SOCKET >{folder}/its.$$; exec {p.PROGRAMS / flavour / 'bsp'} 2 1000"
            done = p.command([*p.launcher(flavour, 2), p.POLTER, "exec", "-o", folder / "x", "--mpi", flavour, "sh", "-c", script], environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            its = {f.read_text().strip() for f in folder.glob("its.*")}
            self.assertEqual(len(its), 1)  # both agree
            its = pathlib.Path(its.pop()).parent
            self.assertEqual(its.parent, runtime)
            soon(lambda: not its.exists(), "polter exec left something behind")
            run = subprocess.Popen([str(w) for w in (p.POLTER, "run", "-o", folder / "k", "--mpi", flavour, "sh", "-c", "echo; exec sleep 1")],
                                   env={**p.ENVIRONMENT, **environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            run.stdout.readline()
            self.assertEqual(len(list(runtime.iterdir())), 1)
            run.kill()
            run.communicate()
            soon(lambda: not list(runtime.iterdir()), "a daemon outlived its job")


class Order(unittest.TestCase):
    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_the_daemon_ends_while_the_trace_is_sealed(self):
        """What polter run waits for comes last; by the order of its system calls, since times say nothing on a busy machine."""
        with p.folder() as folder:
            calls = folder / "calls"
            done = p.command(["strace", "-o", calls, "-e", "trace=kill,mkdir,wait4", p.POLTER, "run", "-q", "--exporter", "bpf", "-o", folder / "x", "--",
                              *p.launcher(p.FLAVOURS[0], 2), p.PROGRAMS / p.FLAVOURS[0] / "bsp", "2", "1000"])
            if "available here" in done.stderr or "ptrace" in done.stderr.lower():
                self.skipTest(done.stderr.strip()[-300:])
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = calls.read_text().splitlines()
            told = next((i for i, line in enumerate(lines) if line.startswith("kill(") and "SIGTERM" in line), None)
            if told is None:
                self.skipTest("another's daemon serves here")
            daemon = lines[told].split("(")[1].split(",")[0]
            sealed = max(i for i, line in enumerate(lines) if line.startswith("mkdir("))
            waited = next(i for i, line in enumerate(lines) if line.startswith(f"wait4({daemon},"))
            self.assertLess(told, sealed)
            self.assertLess(sealed, waited)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    why = p.exporter_works()
    if why:
        print("SKIP: no exporter works here: " + why.splitlines()[0])
        sys.exit(77)
    p.go_first()  # ranks that wait for a CPU see late that the daemon has ended
    unittest.main(verbosity=2)
