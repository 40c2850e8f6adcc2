#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`polter run` finds out which MPI a command uses without executing anything but the command: not its data files, not the ELF interpreter
that one of them names, not the launcher for its version."""
import os
import signal
import struct
import sys
import unittest

import polter_run as p

USER = 65534
# MPICH's mpirun sometimes ends by this signal where its program ends at once, untraced too: one in twenty times on a busy machine.
LAUNCHER_GAVE_UP = 128 + signal.SIGPIPE


def elf_with_interpreter(interpreter):
    """An ELF file that is nothing but its header and the name of a dynamic loader."""
    name = str(interpreter).encode() + b"\0"
    offset = 64 + 56
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 3, 4, offset, offset, offset, len(name), len(name), 1) + name


def as_user(words):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words]


class Reading(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(p.folder())
        self.folder.chmod(0o777)
        self.mark = self.folder / "executed"
        marker = self.program("marker", f'#!/bin/sh\necho "$0 $*" >> {self.mark}\n')
        self.program("mallory.dat", elf_with_interpreter(marker))
        self.program("mpirun_notes.txt", f'#!/bin/sh\necho "$0 $*" >> {self.mark}\necho Open MPI\n')

    def program(self, name, content):
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755)
        return path

    def run_as_both(self, *words):
        """As root and as an ordinary user, where both can be had."""
        command = [p.POLTER, "run", "--exporter", "none", *words]
        users = [lambda words: words]
        if os.geteuid() == 0 and p.command(as_user([p.POLTER, "--version"])).returncode == 0:
            users.append(as_user)
        for user in users:
            for _ in range(5):
                done = p.command(user(command), {"HOME": str(self.folder), "TMPDIR": str(self.folder)}, cwd=self.folder)
                if done.returncode != LAUNCHER_GAVE_UP:
                    break
            yield done

    def executed(self):
        return self.mark.read_text() if self.mark.exists() else ""

    def test_data_files_are_not_executed(self):
        launchers = [[], *(p.launcher(flavour, 1) for flavour in p.FLAVOURS)]
        for launcher in launchers:
            for words, prints in ((["wc", "-c", "./mallory.dat"], "mallory.dat"), (["cat", "./mpirun_notes.txt"], "Open MPI"),
                                  (["env", "A=1", "wc", "-c", "./mallory.dat"], "mallory.dat"),
                                  (["sh", "-c", "cat ./mpirun_notes.txt; wc -c ./mallory.dat"], "mallory.dat")):
                mpi = ["--mpi", "openmpi"] if words[0] == "sh" else []
                for done in self.run_as_both(*mpi, *launcher, *words):
                    with self.subTest(launcher=launcher, words=words):
                        self.assertEqual(self.executed(), "")
                        self.assertIn(prints, done.stdout, done.stderr)

    def test_a_script_runs_once(self):
        for done in self.run_as_both("--mpi", "openmpi", "./mpirun_notes.txt", "wc", "mallory.dat"):
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(self.executed(), "./mpirun_notes.txt wc mallory.dat\n")
            self.mark.unlink()

    def test_a_launcher_is_not_asked_for_its_version(self):
        launcher = self.program("mpirun", f'#!/bin/sh\n# of MPICH\necho "$*" >> {self.mark}\nexec true\n')
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        done = p.command([p.POLTER, "run", "--exporter", "none", "mpirun", "-n", "2", "echo"], path, cwd=self.folder)
        self.assertEqual(self.executed(), "-n 2 echo\n")
        self.assertIn("mpich", done.stderr)
        launcher.write_text(f'#!/bin/sh\necho "$*" >> {self.mark}\n')
        self.mark.unlink()
        done = p.command([p.POLTER, "run", "--exporter", "none", "mpirun", "-n", "2", "echo"], path, cwd=self.folder)
        # Whose launcher it is need not be known: what it starts decides. It has run once, as asked.
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing that it started called MPI_Init", done.stderr)
        self.assertEqual(self.executed(), "-n 2 echo\n")

    @unittest.skipUnless(p.FLAVOURS, "no MPI launcher")
    def test_programs_are_found(self):
        for flavour in p.FLAVOURS:
            program = p.PROGRAMS / flavour / "bsp"
            script = self.program("script.sh", f"#!/bin/sh\nexec {program} 2 1000\n")
            launcher = p.launcher(flavour, 2)
            for words in ([program], ["env", "A=1", program], ["timeout", "100", *launcher, program], [*launcher, "nice", "-n", "1", program],
                          [*launcher, "sh", "-c", 'exec "$0" "$@"', program], ["sh", "-c", f"A=1 {' '.join(launcher)} {program} 2 1000"],
                          [*launcher, script], [launcher[0], "-n", "1", program, "2", "1000", ":", "-n", "1", program]):
                with self.subTest(flavour=flavour, words=words), p.folder() as folder:
                    behind = ["2", "1000"] if words[-1] == program else []
                    run = p.Run([*words, *behind], folder / "e", ["--exporter", "none"])
                    self.assertEqual(run.code, 0, run.explain())
                    self.assertGreater(run.result["events"], 0)


if __name__ == "__main__":
    if not p.POLTER.exists():
        print(f"SKIP: {p.POLTER} is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
