#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Manual pages and completions: they name what the help names."""
import re
import shutil
import subprocess
import unittest

import polter_run as p

COMPLETE = """
source "$0"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_polter
printf '%s\\n' "${COMPREPLY[@]}"
"""


def help_of(*verb):
    return p.command([p.POLTER, *verb, "--help"]).stdout


def verbs():
    listed = help_of().split("Subcommands:")[1]
    return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)


def flags(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text.split("Options:")[1].split("\n\n")[0]))


class Completion(unittest.TestCase):
    def complete(self, folder, *words):
        script = folder / "polter.bash"
        if not script.exists():
            script.write_text(p.command([p.POLTER, "completion", "bash"]).stdout)
        done = p.command(["bash", "--norc", "-c", COMPLETE, script, "polter", *words], cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_bash(self):
        with p.folder() as folder:
            self.assertLessEqual(set(verbs()), self.complete(folder, ""))
            self.assertEqual(self.complete(folder, "rep"), {v for v in verbs() if v.startswith("rep")})
            for verb in verbs():
                self.assertLessEqual(flags(help_of(verb)), self.complete(folder, verb, "--"), verb)
            self.assertEqual(self.complete(folder, "run", "--exporter", "p"), {"perf", "proc"})
            (folder / "some-trace").mkdir()
            self.assertIn("some-trace", self.complete(folder, "replay", "some"))
            self.assertIn("bash", self.complete(folder, "run", "bas"))

    def test_other_shells(self):
        zsh = p.command([p.POLTER, "completion", "zsh"]).stdout
        self.assertTrue(zsh.startswith("autoload -U +X bashcompinit"))
        fish = p.command([p.POLTER, "completion", "fish"]).stdout
        for verb in verbs():
            for flag in flags(help_of(verb)) - {"--help"}:
                self.assertRegex(fish, rf"__fish_seen_subcommand_from {verb}'[^\n]* -l {flag[2:]}\b")
        for shell, text in (("zsh", zsh), ("fish", fish)):
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(p.command([p.POLTER, "completion", "tcsh"]).returncode, 2)


class Manual(unittest.TestCase):
    @unittest.skipUnless((p.BUILD / "man" / "polter.1").exists(), "built without help2man")
    def test_pages(self):
        for page in sorted((p.BUILD / "man").glob("polter*.1")):
            text = page.read_text().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\/", "")
            verb = page.stem.split("-")[1:]
            for flag in flags(help_of(*verb)):
                self.assertIn(flag, text, page)
            self.assertIn("Example:" if verb else "Start with:", text)
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", str(page)], capture_output=True, text=True, check=False)
                self.assertEqual(done.stderr, "", page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
