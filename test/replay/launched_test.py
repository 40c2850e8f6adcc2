#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several processes that replay one trace, started by each MPI that is here and by polter itself: the answer of one process, one message for
an error, no hang."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["POLTER_BUILD"])
WRITER = BUILD / "test" / "replay" / "write_random"
MPIS = [m for m in ("openmpi", "mpich") if shutil.which(f"mpirun.{m}") and (BUILD / "lib" / "polter" / f"libpolter-group-{m}.so").exists()]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none")
LIMIT = 100  # seconds


def replay(words, launcher=(), polter=BUILD / "polter", environment=None, shared=True):
    together = ["--all-processes"] if launcher and shared else []
    return subprocess.run([*launcher, str(polter), "replay", *together, *map(str, words)], env=dict(ENVIRONMENT, **(environment or {})),
                          timeout=LIMIT, check=False, capture_output=True, text=True)


def ways(counts):
    """Numbers of processes that share a trace, with launchers and options: the least forked, the greatest started by each MPI (slowly)."""
    forked = [(f"{counts[0]} forked", [], ["--processes", str(counts[0])])]
    return forked + [(f"{counts[-1]} by {mpi}", [f"mpirun.{mpi}", "-n", str(counts[-1])], []) for mpi in MPIS]


def answer(done):
    """What was found. How much lay in temporary files is told too, and is more where several processes keep copies of one collective."""
    found = json.loads(done.stdout)
    del found["temporary_bytes"]
    return found


def said(done):
    """What polter itself said; launchers add what they think of an exit code."""
    return [line for line in done.stderr.splitlines() if line.startswith("polter:")]


class Launched(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="polter-test-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def trace(self, seed, name="t"):
        path = self.root / name
        subprocess.run([WRITER, str(seed), str(path)], check=True, timeout=LIMIT)
        return path

    def compare(self, trace, counts=(2, 3), *options):
        alone = replay(["--json", "--model", *options, trace])
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for way, launcher, words in ways(counts):
            with self.subTest(way=way):
                done = replay(["--json", "--model", *options, *words, trace], launcher)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, alone.stdout)

    def test_same_answer(self):
        self.compare(self.trace(3))

    def test_one_replays_alone_where_that_is_faster(self):
        trace = self.trace(1)  # ranks that talk to each other so much that it is not faster on an idle host, either
        alone = replay(["--json", trace])
        for mpi in MPIS:
            for quiet, lines in (([], 1), (["-q"], 0)):
                done = replay(["--json", *quiet, trace], [f"mpirun.{mpi}", "-n", "2"], shared=False)
                self.assertEqual((done.returncode, done.stdout), (0, alone.stdout), done.stderr)
                told = [line for line in said(done) if "one of the 2 processes replays" in line]
                self.assertEqual(len(told), lines, done.stderr)
                self.assertTrue(all("--all-processes" in line for line in told), told)
            forced = replay(["--json", trace], [f"mpirun.{mpi}", "-n", "2"])  # --all-processes
            self.assertEqual((forced.returncode, forced.stdout), (0, alone.stdout), forced.stderr)
            self.assertEqual(said(forced), [])

    def test_more_processes_than_ranks(self):
        self.compare(self.trace(4), (8,))

    def test_sick_trace(self):
        trace = self.trace(6)
        events = trace / "traces" / "4.evt"
        events.write_bytes(events.read_bytes()[: events.stat().st_size * 2 // 3])  # messages that nobody takes, collectives without members
        self.compare(trace, (2,))

    def test_model_saved_and_given(self):
        trace, model = self.trace(5), self.root / "m.json"
        alone = replay(["--json", "--save-model", model, trace])
        self.assertEqual(alone.returncode, 0, alone.stderr)
        first = model.read_text()
        for mpi in MPIS:
            model.unlink()
            done = replay(["--json", "--save-model", model, trace], [f"mpirun.{mpi}", "-n", "2"])
            self.assertEqual(done.stdout, alone.stdout, done.stderr)
            self.assertEqual(model.read_text(), first)
        self.compare(self.trace(7), (2,), "--use-model", str(model))

    def test_injected_noise(self):
        noise = self.root / "noise.json"
        noise.write_text(json.dumps({"schema": "polter.inject/1", "sources": [{"name": "tick", "period_ns": 20000, "duration_ns": 700}]}))
        self.compare(self.trace(5), (2, 3), "--inject", str(noise))

    def test_attribution(self):
        for seed in (3, 7):
            trace = self.trace(seed, f"t{seed}")
            alone = replay(["--json", "--attribution", "--costliest", 30, trace])
            self.assertEqual(alone.returncode, 0, alone.stderr)
            text = replay(["--attribution", trace]).stdout
            for way, launcher, words in ways((2, 3)):
                with self.subTest(way=way, seed=seed):
                    done = replay(["--json", "--attribution", "--costliest", 30, *words, trace], launcher)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(answer(done), answer(alone))
                    self.assertGreater(done.stdout.count('"culprit"'), 3)
                    self.assertEqual(replay(["--attribution", *words, trace], launcher).stdout, text)

    def test_approximated_archive(self):
        trace = self.trace(9)

        def printed(archive):
            return [subprocess.run(["otf2-print", *words, archive / "traces.otf2"], check=True, timeout=LIMIT, capture_output=True).stdout
                    for words in (["-G"], [])]

        for removed in ([], ["--remove", "source1"]):  # what stays has to have room
            name = "".join(removed[1:])
            written = ["--json", *removed, "--write-approximated"]
            alone = replay([*written, self.root / f"alone{name}", trace])
            self.assertEqual(alone.returncode, 0, alone.stderr)
            archive = printed(self.root / f"alone{name}")
            self.assertNotEqual(archive, printed(trace))
            for way, launcher, words in ways((2, 3)):
                with self.subTest(way=way, removed=removed):
                    to = self.root / f"{way}{name}"
                    done = replay([*words, *written, to, trace], launcher)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.replace(str(to), str(self.root / f"alone{name}")), alone.stdout)
                    self.assertEqual(printed(to), archive)
                    again = replay([*words, *written[1:], to, trace], launcher)
                    self.assertEqual(again.returncode, 1)
                    self.assertEqual(len(said(again)), 1, again.stderr)
                    self.assertIn("exists already", said(again)[0])
        self.assertEqual([path.name for path in self.root.iterdir() if "partial" in path.name], [])

    def test_errors(self):
        trace, everywhere, first = self.trace(8), self.root / "nowhere", self.trace(9, "first")
        (first / "traces.def").write_bytes(b"nothing")
        for mpi in MPIS:
            for words, says in (([everywhere], "no such trace"), ([first], "traces.otf2"), (["--remove", "moon", trace], "moon"),
                                (["--write-approximated", self.root / "no" / "a", trace], "cannot be made"),
                                (["--inject", trace, trace], "cannot be read"),
                                (["--save-model", self.root / "no" / "m", trace], "cannot be written")):  # known to the first alone
                for shared in (True, False):  # False: the first process looks at the trace before the others do, and may replay it alone
                    with self.subTest(mpi=mpi, says=says, shared=shared):
                        done = replay(words, [f"mpirun.{mpi}", "-n", "3"], shared=shared)
                        self.assertEqual(done.returncode, 1, done.stderr)
                        lines = [line for line in said(done) if "processes replays the trace" not in line]
                        self.assertEqual(len(lines), 1, done.stderr)
                        self.assertIn(says, lines[0])
                        self.assertEqual(done.stdout, "")
        for words, says in (([everywhere], "no such trace"), (["--remove", "moon", trace], "moon")):  # as one process alone says it
            done = replay(["--processes", "3", *words])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual((said(done), len(said(done))), (said(replay(["--processes", "1", *words])), 1))
            self.assertIn(says, said(done)[0])

    def test_a_process_that_dies(self):
        """Its preload ends it where it opens the event file of the last rank, which the second process owns."""
        trace = self.trace(10)
        source, library = self.root / "die.c", self.root / "die.so"
        source.write_text("""#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void die(const char* path) {
    const char* once = getenv("DIE_ONCE");
    if (strstr(path, "/5.evt") && (!once || unlink(once) == 0)) raise(SIGKILL);
}
FILE* fopen64(const char* path, const char* mode) {
    die(path);
    return ((FILE* (*)(const char*, const char*))dlsym(RTLD_NEXT, "fopen64"))(path, mode);
}
FILE* fopen(const char* path, const char* mode) {
    die(path);
    return ((FILE* (*)(const char*, const char*))dlsym(RTLD_NEXT, "fopen"))(path, mode);
}
""")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=LIMIT)
        for mpi in MPIS:
            with self.subTest(mpi=mpi):
                done = replay(["--json", trace], [f"mpirun.{mpi}", "-n", "2", "env", f"LD_PRELOAD={library}"])
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("polter.replay", done.stdout)
        once = self.root / "once"
        once.touch()
        alone = replay(["--json", trace])
        done = replay(["--json", "--processes", "2", trace], environment={"LD_PRELOAD": str(library), "DIE_ONCE": str(once)})
        self.assertEqual((done.returncode, done.stdout), (0, alone.stdout), done.stderr)  # by the first process alone
        self.assertEqual(len(said(done)), 1, done.stderr)
        self.assertIn("died", said(done)[0])
        done = replay(["--json", "--processes", "2", trace], environment={"LD_PRELOAD": str(library)})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("was killed", said(done)[-1])

    def test_progress(self):
        """On a terminal alone, and by the first process alone."""
        trace = self.trace(13)

        def shown(*options):
            master, slave = os.openpty()
            done = subprocess.run([str(BUILD / "polter"), "replay", *options, str(trace)], timeout=LIMIT, check=False, stdout=subprocess.DEVNULL, stderr=slave)
            os.close(slave)
            self.assertEqual(done.returncode, 0)
            try:
                return os.read(master, 1 << 16).decode()
            except OSError:  # nothing was written, and nobody is left who could
                return ""
            finally:
                os.close(master)

        text = shown()
        self.assertIn("replaying 100 %", text)
        self.assertTrue(text.endswith("\r\033[K"), text)  # and is gone at the end
        self.assertEqual(shown("-q"), "")

    def test_wrong_mpi(self):
        trace = self.trace(11)
        for mpi in MPIS:
            other = next((m for m in MPIS if m != mpi), None)
            if not other:
                self.skipTest("one MPI alone")
            done = replay([trace], [f"mpirun.{mpi}", "-n", "2"], environment={"POLTER_MPI": other})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("POLTER_MPI", done.stderr)

    def test_installed(self):
        for part in ("cli", "replay"):
            subprocess.run([os.environ["CMAKE"], "--install", BUILD / part, "--prefix", self.root / "prefix"], check=True, timeout=LIMIT,
                           stdout=subprocess.DEVNULL)
        trace = self.trace(12)
        alone = replay(["--json", trace])
        for mpi in MPIS:
            done = replay(["--json", trace], [f"mpirun.{mpi}", "-n", "2"], self.root / "prefix" / "bin" / "polter")
            self.assertEqual(done.stdout, alone.stdout, done.stderr)


if __name__ == "__main__":
    if not MPIS:
        print("SKIP: no MPI launcher here (Debian: openmpi-bin, mpich; scripts/setup installs both)")
        sys.exit(77)
    unittest.main()
