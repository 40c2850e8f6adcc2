#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What completion offers, as bash would: sources for --remove, shells, directories, files and commands where each belongs. And that help and
manual pages have the command at its place."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import polter_run as p

# After `complete -F`, bash sets these and calls the function. A colon is a word of its own, as in readline's default word breaks.
ASK = r"""
shopt -s extglob
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_WORDBREAKS=$' \t\n"'"'"'><=;|&(:'
compopt() { :; }
_polter
printf '%s\n' "${COMPREPLY[@]}"
"""


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(p.folder())
        cls.script = cls.folder / "polter.bash"
        cls.script.write_text(p.command([p.POLTER, "completion", "bash"]).stdout, encoding="utf-8")
        cls.there = cls.folder / "there"
        for name in ("polter-lmp-1", "other"):
            (cls.there / name).mkdir(parents=True)
        for name in ("traces.otf2", "noise.json"):
            (cls.there / name).touch()

    def offers(self, *words):
        done = subprocess.run(["bash", "-c", ASK, "bash", self.script, "polter", *words], capture_output=True, text=True, cwd=self.there, check=False,
                              timeout=p.LIMIT)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_verbs(self):
        self.assertLessEqual({"run", "exec", "replay", "export", "noise", "doctor", "completion", "help", "--version"}, self.offers(""))
        with_report = {"report"} if p.command([p.POLTER, "help", "report"]).returncode == 0 else set()  # needs Node.js to be built
        self.assertEqual(self.offers("rep"), {"replay"} | with_report)
        self.assertEqual(self.offers("help", "rep"), {"replay"} | with_report)
        self.assertEqual(self.offers("repl"), {"replay"})

    def test_sources(self):
        self.assertLessEqual({"timer", "preempt", "steal", "os-service:net"}, self.offers("replay", "--remove", ""))
        self.assertEqual(self.offers("replay", "--remove", "ti"), {"timer"})
        self.assertEqual(self.offers("replay", "--remove", "timer,pre"), {"timer,preempt"})
        self.assertEqual(self.offers("replay", "--remove", "os-service", ":", "ne"), {"net"})
        self.assertEqual(self.offers("replay", "--remove", "timer,os-service", ":", "ne"), {"net"})

    def test_shells(self):
        self.assertEqual(self.offers("completion", ""), {"bash", "zsh", "fish"})
        self.assertEqual(self.offers("completion", "z"), {"zsh"})

    def test_files_and_directories(self):
        self.assertEqual(self.offers("replay", ""), {"polter-lmp-1", "other", "traces.otf2"})
        self.assertEqual(self.offers("run", "-o", ""), {"polter-lmp-1", "other"})
        self.assertEqual(self.offers("replay", "--write-approximated", "o"), {"other"})
        self.assertEqual(self.offers("replay", "--inject", "n"), {"noise.json"})
        self.assertEqual(self.offers("replay", "--windows", ""), set())
        self.assertEqual(self.offers("export", "--to", ""), {"perfetto", "chrome", "csv", "loggopsim", "goal"})
        self.assertEqual(self.offers("doctor", ""), set())

    def test_values_and_options(self):
        self.assertEqual(self.offers("run", "--mpi", ""), {"openmpi", "mpich"})
        self.assertLessEqual({"auto", "bpf", "perf", "none"}, self.offers("run", "--exporter", ""))
        self.assertEqual(self.offers("replay", "--rem"), {"--remove"})
        self.assertEqual(self.offers("run", "--out"), {"--output"})

    def test_commands(self):
        self.assertIn("bash", self.offers("run", "bas"))
        self.assertIn("bash", self.offers("run", "-o", "e", "--", "bas"))
        # Behind its first word all is the command's own.
        self.assertEqual(self.offers("run", "cat", "n"), {"noise.json"})
        self.assertEqual(self.offers("run", "cat", "--exporter", "n"), {"noise.json"})
        self.assertEqual(self.offers("run", "-o", "other", "cat", "--exp"), set())


class OtherShells(unittest.TestCase):
    def test_they_read_it(self):
        for shell, words in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            with self.subTest(shell), p.folder() as folder:
                script = p.command([p.POLTER, "completion", shell]).stdout
                self.assertIn("timer", script)
                if not shutil.which(shell):
                    continue
                (folder / "script").write_text(script, encoding="utf-8")
                self.assertEqual(p.command([shell, *words, folder / "script"]).returncode, 0)


class Pages(unittest.TestCase):
    def test_command_at_its_place(self):
        for verb in ("run", "exec"):
            self.assertIn(f"Usage: polter {verb} [OPTIONS] [--] COMMAND [ARGUMENT]...\n", p.command([p.POLTER, verb, "--help"]).stdout)
            page = p.BUILD / "man" / f"polter-{verb}.1"
            if not page.exists():
                self.skipTest("no manual pages are built (help2man)")
            text = page.read_text(encoding="utf-8")
            synopsis = text[text.index(".SH SYNOPSIS"):text.index(".SH DESCRIPTION")]
            plain = re.sub(r"\\f.|\\,|\\/|\.SH SYNOPSIS|^\.B ", "", synopsis, flags=re.M).split()
            self.assertEqual(" ".join(plain).replace("\\-", "-"), f"polter {verb} [OPTIONS] [--] COMMAND [ARGUMENT]...")


if __name__ == "__main__":
    if not pathlib.Path(p.POLTER).exists():
        print(f"SKIP: {p.POLTER} is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
