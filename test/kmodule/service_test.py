#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polterd as a node's service: with two capabilities and no more, on a socket that a service manager opened, under a policy; and the
reader library as another tool meets it, installed."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["POLTER_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
POLTERD = BUILD / "lib" / "polter" / "polterd"
CLIENT = BUILD / "test" / "programs" / "polter-own-noise"
USER, OTHER = 65534, 65533
CAPABILITIES = "+bpf,+perfmon"
LIMIT = 60


def as_user(uid, *words, groups=()):
    keep = [f"--groups={','.join(map(str, groups))}"] if groups else ["--clear-groups"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", *keep, *[str(w) for w in words]]


def client(path, uid=None, **more):
    words = [str(CLIENT)] if uid is None else as_user(uid, CLIENT, **more)
    return subprocess.run(words, env=dict(os.environ, POLTER_SOCKET=str(path)), capture_output=True, text=True, timeout=LIMIT, check=False)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="polter-test-") as name:
        path = pathlib.Path(name)
        path.chmod(0o777)
        yield path


@contextlib.contextmanager
def running(words, log, **more):
    """The daemon, once it has said that it serves; else a failure with what it said."""
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=file, stderr=file, **more)
    try:
        until(lambda: process.poll() is not None or "serves on" in log.read_text(), "polterd says nothing")
        if process.poll() is not None:
            raise AssertionError(log.read_text())
        yield process
    finally:
        process.kill()
        process.wait()


def until(holds, says):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(says)
        time.sleep(0.02)


class Service(unittest.TestCase):
    def test_two_capabilities_suffice(self):
        with folder() as path:
            limited = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", f"--inh-caps=-all,{CAPABILITIES}",
                       f"--ambient-caps=-all,{CAPABILITIES}", f"--bounding-set=-all,{CAPABILITIES}", "--no-new-privs"]
            with running([*limited, POLTERD, "--foreground", "--socket", path / "s"], path / "log") as daemon:
                status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
                self.assertIn("CapEff:\t000000c000000000", status)  # CAP_PERFMON and CAP_BPF
                for uid in (None, USER, OTHER):
                    done = client(path / "s", uid)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("measured by bpf", done.stdout)
                    self.assertIn("timer", done.stdout)

    def test_policy(self):
        with folder() as path:
            policy = path / "policy.json"
            policy.write_text(json.dumps({"allow": [f"user:{USER}", "group:12345"]}))
            policy.chmod(0o644)
            with running([POLTERD, "--foreground", "--socket", path / "s", "--policy", policy], path / "log") as daemon:
                self.assertEqual(client(path / "s", USER).returncode, 0)
                refused = client(path / "s", OTHER)
                self.assertEqual(refused.returncode, 1)
                self.assertIn("may not register", refused.stderr)
                self.assertIn(str(policy), refused.stderr)
                self.assertEqual(client(path / "s", OTHER, groups=(12345,)).returncode, 0)
                self.assertEqual(client(path / "s").returncode, 0)  # root
                # Broken: it stays as it was. Changed: from the next registration on.
                policy.write_text("{")
                daemon.send_signal(signal.SIGHUP)
                until(lambda: "stays as it was" in (path / "log").read_text(), "a broken policy is not told")
                self.assertEqual(client(path / "s", USER).returncode, 0)
                policy.write_text(json.dumps({"deny": [f"user:{USER}"]}))
                daemon.send_signal(signal.SIGHUP)
                until(lambda: "policy read again" in (path / "log").read_text(), "the policy is not read again")
                self.assertEqual(client(path / "s", USER).returncode, 1)
                self.assertEqual(client(path / "s", OTHER).returncode, 0)
            done = subprocess.run([POLTERD, "--foreground", "--socket", path / "s", "--policy", path / "none"], capture_output=True, text=True,
                                  timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("policy", done.stderr)

    def test_subordinate_ids_are_their_owners(self):
        # As newuidmap(1) does it for a user: a range of ids that are nobody else's, in a namespace of his own.
        first, inside = 2000000, 5
        with folder() as path:
            policy = path / "policy.json"
            policy.write_text(json.dumps({"deny": [f"user:{USER}"]}))
            policy.chmod(0o644)
            sleeper = subprocess.Popen(as_user(USER, "unshare", "--user", "sleep", "600"))
            try:
                own = os.readlink("/proc/self/ns/user")
                try:
                    until(lambda: os.readlink(f"/proc/{sleeper.pid}/ns/user") != own or sleeper.poll() is not None, "no user namespace")
                except OSError:
                    pass
                if sleeper.poll() is not None:
                    self.skipTest("no user namespaces here")
                for ids in ("uid_map", "gid_map"):
                    pathlib.Path(f"/proc/{sleeper.pid}/{ids}").write_text(f"0 {USER} 1\n1 {first} 1000\n")
                with running([POLTERD, "--foreground", "--socket", path / "s", "--policy", policy], path / "log"):
                    enter = ["nsenter", "-t", str(sleeper.pid), "--user", f"--setuid={inside}", f"--setgid={inside}", str(CLIENT)]
                    done = subprocess.run(enter, env=dict(os.environ, POLTER_SOCKET=str(path / "s")), capture_output=True, text=True, timeout=LIMIT, check=False)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(f"user {first + inside - 1} may not register", done.stderr)
                    self.assertEqual(client(path / "s", OTHER).returncode, 0)
            finally:
                sleeper.kill()
                sleeper.wait()

    def test_messages_that_cannot_be_written_end_nothing(self):
        with folder() as path:
            policy = path / "policy.json"
            policy.write_text("{}")
            policy.chmod(0o644)
            words = [str(w) for w in (POLTERD, "--foreground", "--socket", path / "s", "--policy", policy)]

            def serves(process):
                until(lambda: process.poll() is not None or (path / "s").exists(), "polterd does not serve")
                until(lambda: process.poll() is not None or client(path / "s").returncode == 0, "polterd does not answer")
                for _ in range(3):
                    process.send_signal(signal.SIGHUP)
                    self.assertEqual(client(path / "s", USER).returncode, 0)
                self.assertIsNone(process.poll())
                process.terminate()
                self.assertEqual(process.wait(LIMIT), 0)

            read, write = os.pipe()
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=write, stderr=write)
            os.close(write)
            until(lambda: (path / "s").exists(), "polterd does not serve")
            os.close(read)
            serves(process)
            with open("/dev/full", "wb") as full:
                serves(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=full, stderr=full))
            # Closed: nothing that the daemon opens may be taken for its standard output.
            serves(subprocess.Popen(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *words]))

    def test_socket_of_a_service_manager(self):
        with folder() as path:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(path / "s"))
                listener.listen(8)
                (path / "s").chmod(0o666)
                # As systemd hands it over: descriptor 3, and the process id in the environment.
                words = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" --foreground --exit-with-last --grace 1 3<&"$1"', POLTERD, listener.fileno()]
                with running(words, path / "log", pass_fds=[listener.fileno()]) as daemon:
                    self.assertEqual(client(path / "s", USER).returncode, 0)
                    self.assertEqual(daemon.wait(LIMIT), 0)  # no process is left
                self.assertTrue((path / "s").exists())  # the manager's, who starts the next one
            words = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" --foreground 3</dev/null', POLTERD]
            done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("ListenSequentialPacket", done.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units(self):
        with folder() as path:
            shutil.copy(SOURCE / "kmodule" / "daemon" / "polterd.socket", path)
            text = (BUILD / "kmodule" / "daemon" / "polterd.service").read_text()
            installed = next(line for line in text.splitlines() if line.startswith("ExecStart=")).split(" exec ")[1].split(" ")[0]
            (path / "polterd.service").write_text(text.replace(installed, str(POLTERD)))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path / "polterd.service"), str(path / "polterd.socket")],
                                  capture_output=True, text=True, timeout=LIMIT, check=False)
            ours = [line for line in (done.stdout + done.stderr).splitlines() if "polterd" in line]
            self.assertEqual(ours, [])


class Library(unittest.TestCase):
    def test_embedded_by_pkg_config_and_by_cmake(self):
        with folder() as path:
            done = subprocess.run([os.environ.get("CMAKE", "cmake"), "--install", BUILD, "--prefix", path / "p"], capture_output=True, text=True,
                                  timeout=LIMIT, check=False)
            if done.returncode:
                self.skipTest("not everything is built: " + done.stderr.strip().splitlines()[-1])
            package = next((path / "p").glob("lib*/**/pkgconfig"))
            example = SOURCE / "kmodule" / "examples" / "own_noise.c"
            flags = subprocess.run(["pkg-config", f"--define-variable=prefix={path / 'p'}", "--cflags", "--libs", "polter-noise"], capture_output=True, text=True, check=True,
                                   env=dict(os.environ, PKG_CONFIG_PATH=str(package))).stdout.split()
            subprocess.run(["cc", "-Wall", "-Werror", example, "-o", path / "a", *flags], check=True, timeout=LIMIT)
            (path / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.20)\nproject(embeds C)\nfind_package(polter-noise REQUIRED)\n"
                f"add_executable(b {example})\ntarget_link_libraries(b PRIVATE polter::noise)\n")
            subprocess.run(["cmake", "-S", path, "-B", path / "build", f"-DCMAKE_PREFIX_PATH={path / 'p'}"], check=True, timeout=LIMIT,
                           stdout=subprocess.DEVNULL)
            subprocess.run(["cmake", "--build", path / "build"], check=True, timeout=LIMIT, stdout=subprocess.DEVNULL)
            for program in (path / "a", path / "build" / "b"):
                done = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT, check=False,
                                      env={k: v for k, v in os.environ.items() if not k.startswith("POLTER_")})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"measured by \w+\n.*preempt")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIP: polterd needs privilege, and so does another user's part in this test")
        sys.exit(77)
    probe = subprocess.run([POLTERD, "--foreground", "--ready-fd", "1", "--exit-with-last", "--grace", "0", "--socket", tempfile.mktemp()],
                           capture_output=True, text=True, timeout=LIMIT, check=False)
    if probe.returncode:
        print("SKIP: polterd does not run here: " + probe.stderr.strip())
        sys.exit(77)
    unittest.main(verbosity=2)
