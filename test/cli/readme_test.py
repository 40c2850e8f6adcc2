#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command of the project's README runs as it stands there; one that is not known here fails."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import polter_run as p

SOURCE = pathlib.Path(__file__).parents[2]
QUICKSTART_STEPS = "40"


def commands(text):
    """The lines of code blocks, fenced or indented, without their comments."""
    found, fenced, blank, found_here = [], False, True, False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or (line.startswith("    ") and (blank or found_here)):
            found.append(re.sub(r"\s+#.*", "", line.strip()))
            found_here = True
            blank = False
            continue
        blank, found_here = not line.strip(), False
    return [c for c in found if c]


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = p.pathlib.Path(self.enterContext(p.folder()))
        (self.folder / "build").symlink_to(p.BUILD)
        mpi = "mpich" if "mpich" in os.path.realpath(shutil.which("mpirun") or "") else "openmpi"
        (self.folder / "app").symlink_to(p.PROGRAMS / mpi / "p2p")
        script = self.folder / "script.sh"
        script.write_text("#!/bin/sh\nmpirun -n 2 ./app && mpirun -n 2 ./app\n")
        script.chmod(0o755)

    def shell(self, line, cwd=None):
        done = subprocess.run(["bash", "-c", line], cwd=cwd or self.folder, env=p.ENVIRONMENT, timeout=p.LIMIT, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stderr[-2000:]}")
        return done.stdout

    def polter(self, line):
        runs = sorted(self.folder.glob("polter-app-*"))
        if "DIR" in line or "*" in line:
            self.assertTrue(runs, f"{line}: stands before the run that it is about")
        given = self.folder / "noise.json"
        given.write_text('{"schema": "polter.inject/1", "sources": [{"name": "tick", "period_ns": 4000000, "duration_ns": 8000}]}')
        line = re.sub(r"\bFILE\b", str(given), line)
        if "polter noise" in line and "--loop" not in line and p.command([p.POLTER, "noise", "--seconds", "0.05"]).returncode:
            print(f"not run: {line}: the node cannot be observed here", file=sys.stderr)
            return
        output = self.shell(re.sub(r"\bDIR\b", str(runs[0]) if runs else "DIR", line))
        self.assertTrue(output)

    def quickstart(self, line):
        if p.BUILD.resolve() != (SOURCE / "build").resolve():
            print(f"not run: {line}: it builds in {SOURCE / 'build'}, and what is tested is {p.BUILD}", file=sys.stderr)
            return
        if not shutil.which("lmp"):
            print(f"not run: {line}: it would install LAMMPS", file=sys.stderr)
            return
        before = set(SOURCE.glob("polter-quickstart-*"))
        try:
            output = self.shell(f"{line} {QUICKSTART_STEPS}", SOURCE)
            self.assertIn("== 4/4", output)
            self.assertRegex(output, r"\btimer\b")
            self.assertIn("What to try next", output)
            if p.command([p.POLTER, "help", "report"]).returncode == 0:
                report = SOURCE / output.strip().splitlines()[-1].strip()
                self.assertGreater(report.stat().st_size, 50_000, f"{report}: the report that the quick start ends with")
            else:
                self.assertIn("There is no report", output)
        finally:
            for made in set(SOURCE.glob("polter-quickstart-*")) - before:
                shutil.rmtree(made)

    def interference(self, line):
        """Of a program with collectives: the one that the other commands are about has few."""
        app = p.PROGRAMS / ("mpich" if "mpich" in os.path.realpath(shutil.which("mpirun") or "") else "openmpi") / "bsp"
        verb = line.split()[1]
        self.shell(f"build/polter run -q -o of-{verb} mpirun -n 2 {app} 50 2000")
        self.assertIn({"interference": "Interference", "variability": "typical", "predict": "1024 ranks"}[verb], self.shell(line.replace("DIR", f"of-{verb}")))

    def quality(self, line):
        app = p.PROGRAMS / ("mpich" if "mpich" in os.path.realpath(shutil.which("mpirun") or "") else "openmpi") / "bsp"
        for _ in range(2):
            self.shell(f"build/polter run -q --record history -o recorded mpirun -n 2 {app} 50 2000; rm -r recorded")
        self.assertIn("Verdict: no basis: too few jobs", self.shell(line))

    def minutes(self, line):
        print(f"not run: {line}: it takes two minutes; test/end_to_end/validate_test.py runs shorter ones", file=sys.stderr)

    # What is done with a command that fits. The first two cannot be done here: the network, and the test that runs this.
    KNOWN = [
        (r"git clone .*&& cd \w+", None),
        (r"\./scripts/test", None),
        (r"\./scripts/quickstart", quickstart),
        (r"build/polter validate --quick", minutes),
        (r"build/polter (interference|variability|predict) DIR( --ranks 1024)?", interference),
        (r"build/polter quality history", quality),
        (r"(mpirun -n \d+ )?build/polter (doctor|latency|(run|replay|report|advise|compare|noise|export) .*)", polter),
    ]

    def test_commands(self):
        lines = commands((SOURCE / "README.md").read_text(encoding="utf-8"))
        self.assertGreater(len(lines), 5)
        for line in lines:
            with self.subTest(line):
                how = [do for pattern, do in self.KNOWN if re.fullmatch(pattern, line)]
                self.assertTrue(how, "no test runs this command of the README: add it here")
                if how[0]:
                    how[0](self, line)
                elif "scripts/" in line:
                    self.assertTrue(os.access(SOURCE / line.split()[0], os.X_OK))

    def test_what_is_found(self):
        text = "text\n\n    one  # why\n    two\n\n```sh\nthree\n```\n    no code\n"
        self.assertEqual(commands(text), ["one", "two", "three"])


if __name__ == "__main__":
    if not p.FLAVOURS or not shutil.which("mpirun"):
        print("SKIP: no MPI launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
