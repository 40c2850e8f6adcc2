#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong for users, on real jobs: programs that end otherwise than they should, places without room, exporters that are not what
they seem, traces that are none. Each time the job's own result is untouched, and what is said names the matter. (Wrong command lines:
test/cli; damaged archives in all ways: test/replay/sick_test, test/fuzz.)"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import unittest

import polter_run as p

BARRIERS = 100


def odd(flavour, *how, ranks=2):
    return [*p.launcher(flavour, ranks), p.PROGRAMS / flavour / "odd", *how]


def barriers(experiment):
    """Of rank 0, as otf2-print sees them."""
    out = subprocess.run(["otf2-print", "-L", "0", str(experiment / "traces.otf2")], capture_output=True, text=True, check=False, timeout=p.LIMIT).stdout
    return sum(1 for line in out.splitlines() if line.startswith("ENTER") and '"MPI_Barrier"' in line)


class Programs(unittest.TestCase):
    def odd(self, *how, ranks=2, also=()):
        """The traced run on each MPI. Its code is the launcher's, and that is the one without polter, or of `also`."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                job = odd(flavour, *how, ranks=ranks)
                plain = p.command(job)
                run = p.Run(["sh", "-c", f'"$0" "$@"; code=$?; echo $code >{folder}/code; exit $code', *job], folder / "e")
                self.assertEqual(run.code, int((folder / "code").read_text()), run.explain())
                self.assertIn(run.code, {plain.returncode, *also}, run.explain())
                self.assertIsNotNone(run.result, run.explain())
                if shutil.which("otf2-print"):
                    self.assertEqual(barriers(folder / "e"), BARRIERS)
                yield run

    def test_never_finalised(self):
        # MPICH's launcher calls ranks that leave without MPI_Finalize failed about once in a hundred jobs, traced or not.
        for run in self.odd("never", also=(0, 1)):
            self.assertEqual(run.result["provenance"]["INCOMPLETE"], "yes")
            self.assertTrue(any("did not finish" in w or "never" in w or "unfinished" in w for w in run.result["warnings"]), run.result["warnings"])

    def test_mpi_after_finalize(self):
        # One rank: the MPI aborts the job, and might find another still in its MPI_Finalize.
        for run in self.odd("late", ranks=1):
            self.assertNotEqual(run.code, 0)  # the MPI's own verdict
            self.assertEqual(run.result["provenance"]["INCOMPLETE"], "no")

    def test_abort(self):
        for run in self.odd("abort"):
            self.assertEqual(run.code, 7)
            self.assertEqual(run.result["provenance"]["INCOMPLETE"], "yes")

    def test_more_threads_than_places(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                run = p.Run(odd(flavour, "threads", "40", ranks=1), folder / "e")
                if run.code == 77:
                    self.skipTest("this MPI has no MPI_THREAD_MULTIPLE")
                self.assertEqual(run.code, 0, run.explain())
                if run.result["run"]["exporter"]["name"] != "bpf":
                    self.skipTest("only a daemon counts its places")
                self.assertTrue(any("a further thread has no noise" in w and "taken" in w for w in run.result["warnings"]), run.result["warnings"])


class Places(unittest.TestCase):
    @contextlib.contextmanager
    def small_disk(self, folder, size):
        small = folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small], capture_output=True, check=False).returncode:
            self.skipTest("a file system that is full needs the right to mount one")
        try:
            yield small
        finally:
            subprocess.run(["umount", small], check=False)

    def test_full_disk(self):
        flavour = p.FLAVOURS[0]
        with p.folder() as folder, self.small_disk(folder, "1m") as small:
            for how, code in (("", 0), ("abort", 7)):
                with self.subTest(how):
                    done = p.command([p.POLTER, "run", "-o", small / "e", *odd(flavour, *how.split())], cwd=folder)
                    self.assertEqual(done.stdout.count("done "), 0 if code else 2, done)
                    # The job is not to blame: its own exit code is passed on.
                    self.assertEqual(done.returncode, code, done.stderr)
                    for says in ("No space left on device", str(small / "e")):
                        self.assertIn(says, done.stderr)
                    shutil.rmtree(small / "e")

    def test_disk_that_is_full_at_the_end(self):
        """What was recorded stays, and makes a trace once there is room."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder, self.small_disk(folder, "40m") as small:
            for code in (0, 3):
                script = f'"$0" "$@"; cat /dev/zero 2>/dev/null >{small}/other; exit {code}'
                with self.subTest(code):
                    done = p.command([p.POLTER, "run", "-o", small / "e", "sh", "-c", script, *odd(flavour)], cwd=folder)
                    self.assertEqual(done.stdout.count("done "), 2, done)
                    self.assertEqual(done.returncode, code, done.stderr)
                    for says in ("no room left", f"the job itself ended with exit code {code}", f"polter replay {small / 'e'}"):
                        self.assertIn(says, done.stderr)
                    (small / "other").unlink()
                    done = p.command([p.POLTER, "replay", "--json", small / "e"])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(json.loads(done.stdout)["ranks"], 2)
                    shutil.rmtree(small / "e")


@contextlib.contextmanager
def impostor(path, version):
    """Answers each request as a polterd of another version of the protocol would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(16)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        request = peer.recv(4096)
                        peer.send(struct.pack("<IIII", 0x4B4C4154, version, struct.unpack_from("<I", request, 8)[0], 0) + bytes(632 - 16))

        threading.Thread(target=serve, daemon=True).start()
        yield


class Exporters(unittest.TestCase):
    def fallen_back(self, path, says):
        """The run goes on, by other means, and says why not by this daemon."""
        with p.folder() as folder:
            run = p.Run(odd(p.FLAVOURS[0]), folder / "e", environment={"POLTER_SOCKET": str(path)})
            self.assertEqual(run.code, 0, run.explain())
            self.assertIn(says, run.error + run.result["run"]["exporter"]["why"])
            self.assertNotEqual(run.result["run"]["exporter"]["name"], "none")

    def test_stale_socket(self):
        with p.folder() as folder:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(folder / "s"))
            self.fallen_back(folder / "s", "no daemon on")

    def test_no_socket_at_all(self):
        with p.folder() as folder:
            (folder / "s").write_text("")
            self.fallen_back(folder / "s", "no daemon on")

    def test_daemon_of_another_version(self):
        with p.folder() as folder, impostor(folder / "s", 99):
            self.fallen_back(folder / "s", "another version")


class Traces(unittest.TestCase):
    def refused(self, path, *says):
        done = p.command([p.POLTER, "replay", path])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for text in (str(path), *says):
            self.assertIn(text, done.stderr)

    def test_what_is_no_trace(self):
        with p.folder() as folder:
            self.refused(folder / "nothing")
            (folder / "empty").mkdir()
            self.refused(folder / "empty", "traces.otf2")
            for name, content in (("none.otf2", b""), ("text.otf2", b"this is no archive\n" * 50), ("binary.otf2", os.urandom(5000))):
                (folder / name).write_bytes(content)
                self.refused(folder / name)

    def test_of_a_real_run(self):
        with p.folder() as folder:
            run = p.Run(odd(p.FLAVOURS[0]), folder / "e", ["--exporter", "none"])
            self.assertEqual(run.code, 0, run.explain())
            # Without noise there is nothing to remove, and that is said.
            self.assertEqual(run.result["accumulated_noise_ns"], 0)
            self.assertTrue(any("not measured" in w for w in run.result["warnings"]), run.result["warnings"])
            done = p.command([p.POLTER, "replay", "--remove", "timer,gremlins", folder / "e"])
            self.assertEqual(done.returncode, 1)
            self.assertIn("gremlins", done.stderr)
            # Cut in the middle: what is left is read, and the loss is told.
            events = max((folder / "e" / "traces").glob("*.evt"), key=lambda f: f.stat().st_size)
            with open(events, "r+b") as file:
                file.truncate(events.stat().st_size // 2)
            done = p.command([p.POLTER, "replay", "--json", folder / "e"])
            if done.returncode == 0:
                self.assertTrue(json.loads(done.stdout)["warnings"])
            else:
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            # The anchor alone.
            shutil.rmtree(folder / "e" / "traces")
            self.refused(folder / "e", "event file")


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
