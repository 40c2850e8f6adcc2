#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`polter run` and `polter exec` on the wrong turns that users take: the exit code, and one line that says what, where, what to do."""
import fcntl
import json
import os
import pty
import shutil
import stat
import struct
import subprocess
import sys
import termios
import unittest

import polter_run as p

# command line after `polter`, exit code, what standard error must say
WRONG = [
    ([], 2, "Usage: polter"),
    (["gremlins"], 2, "gremlins: no such subcommand; polter --help"),
    (["rnu"], 2, "did you mean run?"),
    (["help", "repaly"], 2, "did you mean replay?"),
    (["replay", "--remov", "timer", "/polter/nowhere"], 2, "did you mean --remove?"),
    (["run", "--exporte=none", "true"], 2, "did you mean --exporter?"),
    (["exec", "--outptu", "e", "true"], 2, "did you mean --output?"),
    (["doctor", "--gremlins"], 2, "--gremlins: no such option of polter doctor; polter doctor --help"),
    (["run"], 2, "command"),
    (["run", "--"], 2, "command"),
    (["run", "--bogus", "true"], 2, "--bogus"),
    (["run", "--exporter", "magic", "true"], 2, "magic"),
    (["run", "--mpi", "lam", "true"], 2, "lam"),
    (["exec"], 2, "command"),
    (["replay"], 2, "TRACE"),
    (["run", "polter-no-such-program"], 1, "no such program"),
    (["run", "./polter-no-such-program"], 1, "no such program"),
    (["run", "--exporter", "module", "true"], 1, "available here"),
    (["replay", "/polter/nowhere"], 1, "/polter/nowhere"),
    (["replay", "--attribution", "--windows", "0", "/polter/nowhere"], 2, "--windows"),
    *((["replay", option, "", "/polter/nowhere"], 2, f"{option}: needs a name")
      for option in ("--write-approximated", "--inject", "--save-model", "--use-model")),
    (["replay", ""], 2, "TRACE: needs a name"),
    (["run", "-o", "", "true"], 2, "--output: needs a name"),
    (["replay", "--remove", "timer", "--inject", "noise.json", "/polter/nowhere"], 2, "--inject"),
    (["replay", "--costliest", "5", "/polter/nowhere"], 2, "--attribution"),
    (["advise"], 2, "TRACE"),
    (["advise", "--least", "200", "/polter/nowhere"], 2, "--least"),
    (["advise", "/polter/nowhere"], 1, "/polter/nowhere"),
    (["compare", "/polter/nowhere"], 2, "TRACE"),
    (["compare", "/polter/nowhere", ","], 2, "TRACE: needs a name"),
    (["compare", "/polter/nowhere", "/polter/elsewhere"], 1, "/polter/nowhere"),
    (["export", "/polter/nowhere"], 2, "--to"),
    (["export", "--to", "vampir", "/polter/nowhere"], 2, "vampir"),
    (["export", "--to", "csv"], 2, "TRACE"),
    (["export", "--to", "csv", "-o", "", "/polter/nowhere"], 2, "--output: needs a name"),
    (["export", "--to", "csv", "/polter/nowhere"], 1, "/polter/nowhere"),
    (["export", "--to", "csv", "--window", "2s-1s", "/polter/nowhere"], 2, "earlier time first"),
    (["export", "--to", "csv", "--window", "now", "/polter/nowhere"], 2, "1.2s-1.3s"),
    (["export", "--to", "csv", "--ranks", "3-1", "/polter/nowhere"], 2, "--ranks"),
    (["export", "--to", "goal", "--ranks", "1", "/polter/nowhere"], 2, "needs all ranks"),
    (["export", "--to", "goal", "--window", "0-1", "/polter/nowhere"], 2, "whole run"),
    (["export", "--to", "loggopsim", "--aggregate", "9", "/polter/nowhere"], 2, "--aggregate"),
    (["export", "--to", "goal", "--measured-only", "/polter/nowhere"], 2, "--measured-only"),
    (["replay", "/polter/\x1b[31mnowhere"], 1, "/polter/\\x1b[31mnowhere"),
]


class Wrong(unittest.TestCase):
    def test_table(self):
        for words, code, says in WRONG:
            with self.subTest(" ".join(words)), p.folder() as folder:
                done = p.command([p.POLTER, *words], cwd=folder)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertEqual([str(f) for f in folder.iterdir()], [], "something was left behind")
                if code == 1:
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_help_has_an_example(self):
        for verb in ("run", "exec", "replay", "export", "noise", "doctor"):
            done = p.command([p.POLTER, verb, "--help"])
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example:", done.stdout)
        self.assertRegex(p.command([p.POLTER, "--version"]).stdout, r"^polter \d+\.\d+")

    def test_help_as_a_verb(self):
        for words, as_option in ((["help"], ["--help"]), (["help", "replay"], ["replay", "--help"]), (["help", "--help"], ["--help"])):
            done = p.command([p.POLTER, *words])
            self.assertEqual((done.returncode, done.stdout), (0, p.command([p.POLTER, *as_option]).stdout))
        for verb in ("run", "exec"):
            self.assertIn(f"Usage: polter {verb} [OPTIONS] [--] COMMAND", p.command([p.POLTER, verb, "--help"]).stdout)

    def test_narrow_terminal(self):
        """What is said fits it, but for words that are longer."""
        columns = 60
        with p.folder() as folder:
            for words in (["--help"], ["run", "--help"], ["replay", "--help"], ["rnu"], ["run", "--exporter", "module", "true"]):
                with self.subTest(words):
                    terminal, inside = pty.openpty()
                    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                    run = subprocess.Popen([p.POLTER, *words], env=p.ENVIRONMENT, stdin=inside, stdout=inside, stderr=inside, cwd=folder)
                    os.close(inside)
                    lines = p.read_terminal(terminal).splitlines()
                    run.wait(p.LIMIT)
                    self.assertTrue(lines)
                    for line in lines:
                        self.assertTrue(len(line) <= columns or " " not in line.strip(), line)


def on_terms(script, *words, environment=None, cwd=None):
    """A shell's script, in which "$0" "$@" is the command."""
    return p.command(["bash", "-c", script, p.POLTER, *words], environment, cwd=cwd)


class Output(unittest.TestCase):
    """What is printed or written is there, or its loss is told and the exit code is 1."""

    def setUp(self):
        self.folder = self.enterContext(p.folder())
        self.trace = self.folder / "t"
        done = p.command([p.BUILD / "test" / "replay" / "write_random", "3", self.trace])
        self.assertEqual(done.returncode, 0, done.stderr)

    def full(self):
        """A device like /dev/full, that may come to harm."""
        device = self.folder / "full"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 7))
            with open(device, "rb"):  # the file system may be mounted without devices
                return device
        except OSError as error:
            self.skipTest(f"no device of one's own: {error}")

    def test_full_device(self):
        device = self.full()
        for words in (["replay", self.trace], ["replay", "--json", self.trace], ["replay", "--help"], ["--version"], ["completion", "bash"],
                      ["doctor"]):
            with self.subTest(words):
                done = on_terms(f'"$0" "$@" > {device}', *words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn("standard output", done.stderr)
                if words[0] == "replay" and "--help" not in words:
                    self.assertIn("No space left on device", done.stderr)

    def test_closed_output(self):
        self.assertEqual(on_terms('"$0" "$@" >&-', "replay", self.trace).returncode, 1)

    def test_pipe_that_nobody_reads(self):
        for words in (["replay", self.trace], ["replay", "--json", self.trace]):
            for ready in ("", "trap '' PIPE; "):
                done = on_terms(f'{ready}"$0" "$@" | true', *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(on_terms('"$0" "$@" | head -1', "replay", self.trace).stderr, "")

    def test_model_where_something_is(self):
        anchor = self.trace / "traces.otf2"
        before = anchor.read_bytes()
        done = p.command([p.POLTER, "replay", "--save-model", anchor, self.trace])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("is no model", done.stderr)
        self.assertEqual(anchor.read_bytes(), before)
        for _ in range(2):
            self.assertEqual(p.command([p.POLTER, "replay", "--save-model", self.folder / "m", self.trace]).returncode, 0)
        done = on_terms('"$0" "$@" > result', "replay", "--save-model", "/dev/stdout", self.trace, cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("where the result goes", done.stderr)

    def test_model_on_a_device(self):
        device = self.full()
        done = p.command([p.POLTER, "replay", "--save-model", device, self.trace])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("No space left on device", done.stderr)
        self.assertTrue(stat.S_ISCHR(device.stat().st_mode))

    def test_archive_without_room(self):
        done = on_terms("trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", "replay", "--remove", "", "--write-approximated", self.folder / "a", self.trace)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("too large", done.stderr)
        self.assertIn("is there room?", done.stderr)
        self.assertEqual([f.name for f in self.folder.iterdir()], ["t"])

    def test_temporary_directory_that_is_not_there(self):
        done = p.command([p.POLTER, "replay", "--attribution", self.trace], {"TMPDIR": "/polter/nowhere"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("TMPDIR=/polter/nowhere", done.stderr)

    def test_blanks_between_names(self):
        plain, spaced = (p.command([p.POLTER, "replay", "--json", "--remove", names, self.trace]) for names in ("source0,source1", " source0 , source1,"))
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertEqual(spaced.stdout, plain.stdout)


class Run(unittest.TestCase):
    def run_in(self, folder, *words, environment=None):
        return p.command([p.POLTER, "run", "--exporter", "none", *words], environment, cwd=folder)

    def test_program_without_mpi(self):
        with p.folder() as folder:
            done = self.run_in(folder, "true")
            self.assertEqual(done.returncode, 1)
            self.assertIn("no trace", done.stderr)
            self.assertIn("not linked with an MPI", done.stderr)

    def test_exit_code_of_the_job(self):
        with p.folder() as folder:
            for code in (0, 3, 77):
                done = self.run_in(folder, "-o", f"e{code}", "--mpi", "openmpi", "sh", "-c", f"exit {code}")
                self.assertEqual(done.returncode, code or 1)
            done = self.run_in(folder, "-o", "killed", "--mpi", "openmpi", "sh", "-c", "kill -TERM $$")
            self.assertEqual(done.returncode, 128 + 15)

    def test_messages_that_nobody_can_have(self):
        """Standard error full, closed or read by nobody, all descriptors closed: the job runs, and its exit code is passed on."""
        terms = ["2>/dev/full", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"]
        with p.folder() as folder:
            def check(name, run):
                for code in (0, 3):
                    mark = folder / f"{name}-{code}"
                    done = run("run", "--exporter", "none", "-o", f"e-{name}-{code}", "--mpi", "openmpi", "sh", "-c", f"touch {mark}; exit {code}")
                    self.assertEqual(done.returncode, code or 1)  # no MPI: there is nothing to trace
                    self.assertTrue(mark.exists(), "the job did not run")
                for words, code in ((["replay", "/polter/nowhere"], 1), (["run", "--bogus"], 2), (["run", "polter-no-such-program"], 1)):
                    self.assertEqual(run(*words).returncode, code)

            for number, term in enumerate(terms):
                with self.subTest(term):
                    check(number, lambda *words, term=term: on_terms(f'"$0" "$@" {term}', *words, cwd=folder))
            with self.subTest("a pipe that nobody reads"):
                reader, writer = os.pipe()
                os.close(reader)
                words = [p.POLTER, "run", "--exporter", "none", "-o", folder / "pipe", "--mpi", "openmpi", "sh", "-c", "trap - PIPE; kill -PIPE $$"]
                done = subprocess.run([str(w) for w in words], env=p.ENVIRONMENT, stdout=writer, stderr=writer, timeout=p.LIMIT, check=False)
                os.close(writer)
                self.assertEqual(done.returncode, 128 + 13)  # the job has the signal as it was

    def test_words_of_the_command_are_its_own(self):
        with p.folder() as folder:
            for separator in ([], ["--"]):
                done = self.run_in(folder, "--mpi", "openmpi", *separator, "sh", "-c", 'echo "$0 $*"', "-o", "--json", "-q", "--", "--help")
                self.assertIn("-o --json -q -- --help", done.stdout)

    def test_existing_directory(self):
        with p.folder() as folder:
            (folder / "full").mkdir()
            (folder / "full" / "thesis.tex").write_text("dear")
            (folder / "file").write_text("dear")
            for name in ("full", "file"):
                done = self.run_in(folder, "-o", name, "true")
                self.assertEqual(done.returncode, 1)
                self.assertIn("-o", done.stderr)
                self.assertNotIn("no trace", done.stderr)
            self.assertEqual([f.name for f in (folder / "full").iterdir()], ["thesis.tex"])
            (folder / "empty").mkdir()
            self.assertIn("no trace", self.run_in(folder, "-o", "empty", "true").stderr)

    def test_directory_that_cannot_be_written(self):
        # root may write everywhere but where nobody can.
        target = "/proc/polter" if os.geteuid() == 0 else None
        with p.folder() as folder:
            if not target:
                folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
                target = folder / "e"
            done = self.run_in("/", "-o", target, "true")
            folder.chmod(0o700)
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(target), done.stderr)
            self.assertIn("-o", done.stderr)

    def test_nothing_is_left_where_nothing_called_mpi(self):
        with p.folder() as folder:
            for words in (["true"], ["-o", "e", "true"], ["-o", "e", "--mpi", "openmpi", "sh", "-c", "exit 3"], ["--mpi", "mpich", "sh", "-c", "kill -9 $$"]):
                done = self.run_in(folder, *words)
                self.assertIn("no trace", done.stderr)
                self.assertEqual([f.name for f in folder.iterdir()], [])
            # What the job itself has put there stays.
            self.run_in(folder, "-o", "e", "--mpi", "openmpi", "sh", "-c", "echo dear >e/thesis.tex")
            self.assertEqual((folder / "e" / "thesis.tex").read_text(), "dear\n")

    def test_quiet(self):
        with p.folder() as folder:
            done = self.run_in(folder, "-q", "-o", "e", "--mpi", "openmpi", "sh", "-c", "exit 3")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)  # that there is no trace

    def test_wrong_exporter_in_the_environment(self):
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "true"], {"POLTER_EXPORTER": "magic"}, cwd=folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("POLTER_EXPORTER=magic", done.stderr)


@unittest.skipUnless(p.FLAVOURS, "no MPI launcher")
class WithMpi(unittest.TestCase):
    def test_default_directory_and_provenance(self):
        job = [p.PROGRAMS / p.FLAVOURS[0] / "bsp", "2", "100"]
        with p.folder() as folder:
            for _ in range(2):
                done = p.command([p.POLTER, "run", "-q", "--exporter", "none", *job], cwd=folder)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            found = sorted(folder.iterdir())
            self.assertEqual(len(found), 2)
            self.assertTrue(found[0].name.startswith("polter-bsp-"))
            record = json.loads((found[0] / "experiment.json").read_text())
            self.assertEqual(record["command"], [str(word) for word in job])
            self.assertEqual(record["exit_code"], 0)
            self.assertEqual(record["exporter"]["name"], "none")

    def test_exporter_is_one_line(self):
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "-o", "e", *p.launcher(p.FLAVOURS[0], 2), p.PROGRAMS / p.FLAVOURS[0] / "bsp", "2", "1000"], cwd=folder)
            said = [line for line in done.stderr.splitlines() if "exporter" in line]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertLess(len(said[0]), 160)

    def test_run_under_a_launcher(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                said = 'exec "$0" "$@" 2>>said'  # Hydra may lose what a rank said that ended at once
                done = p.command([*p.launcher(flavour, 2), "sh", "-c", said, p.POLTER, "run", p.PROGRAMS / flavour / "bsp", "2", "100"], cwd=folder)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("one of 2 processes", (folder / "said").read_text())
                self.assertIn("polter exec", (folder / "said").read_text())
                self.assertEqual([f.name for f in folder.iterdir()], ["said"])

    def test_root_under_open_mpi(self):
        """Told before anything is made."""
        if os.geteuid() != 0 or "openmpi" not in p.FLAVOURS:
            self.skipTest("for root, with Open MPI")
        environment = {k: v for k, v in p.ENVIRONMENT.items() if not k.startswith("OMPI_ALLOW")}
        with p.folder() as folder:
            words = [p.POLTER, "run", *p.launcher("openmpi", 2), p.PROGRAMS / "openmpi" / "bsp", "2", "100"]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=folder, timeout=p.LIMIT, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", done.stderr)
            self.assertEqual(list(folder.iterdir()), [])
            words[2:2] = ["-o", "e"]
            words.insert(5, "--allow-run-as-root")
            done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=folder, timeout=p.LIMIT, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_short_result(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                done = p.command([p.POLTER, "run", "-o", "e", *p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", "5", "10000"], cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                for part in ("bsp: 2 ranks on ", "Run time", "Tracing", "More: polter replay e\n", "elapsed_ns"):
                    self.assertIn(part, done.stdout)
                self.assertIn("exporter", done.stderr)
                self.assertFalse((folder / "e" / "ranks").exists())
                screen = done.stdout[done.stdout.index("bsp: 2 ranks on "):]
                self.assertLessEqual(max(map(len, screen.splitlines())), 80, screen)
                begin = screen[:screen.index("\nRun time")]
                self.assertTrue(p.command([p.POLTER, "replay", "e"], cwd=folder).stdout.startswith(begin), screen)

    def test_result_that_nobody_can_have(self):
        for flavour in p.FLAVOURS:
            for term, code in (("2>/dev/full", 0), ("<&- 2>&-", 0), (">/dev/full", 1)):
                with self.subTest(flavour=flavour, term=term), p.folder() as folder:
                    done = on_terms(f'"$0" "$@" {term}', "run", "--exporter", "none", "-o", "e", p.PROGRAMS / flavour / "bsp", "2", "1000", cwd=folder)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertTrue((folder / "e" / "traces.otf2").exists())

    def test_what_measured_is_said_once(self):
        """The exporter that was chosen may not come to the ranks: then nothing says that it measured."""
        job = [*p.launcher(p.FLAVOURS[0], 2), "env", "POLTER_SOCKET=/polter/nowhere", p.PROGRAMS / p.FLAVOURS[0] / "bsp", "2", "1000"]
        for exporter in ("none", "auto"):
            with self.subTest(exporter), p.folder() as folder:
                done = p.command([p.POLTER, "run", "--exporter", exporter, "-o", "e", *job], cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                said = [line.lower() for line in (done.stdout + done.stderr).splitlines()]
                self.assertEqual(sum("noise: measured by" in line or "measured by bpf" in line for line in said)
                                 + sum("noise: not measured" in line for line in said), 1, said)
                if exporter == "none":
                    self.assertIn("Noise: not measured", done.stdout)
                    self.assertEqual(sum("measured" in line for line in said), 1, said)

    def test_one_process_without_a_launcher(self):
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "--json", "-o", "e", p.PROGRAMS / flavour / "bsp", "5", "10000"], cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["ranks"], 1)

    def test_launcher_of_the_other_mpi(self):
        if len(p.FLAVOURS) < 2:
            self.skipTest("one MPI only")
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "--exporter", "none", "-o", "e", *p.launcher("mpich", 2), p.PROGRAMS / "openmpi" / "bsp", "5", "100"],
                             cwd=folder)
            self.assertIn("its launcher is that of mpich", done.stderr)

    def test_tracer_of_the_other_mpi(self):
        if len(p.FLAVOURS) < 2:
            self.skipTest("one MPI only")
        for flavour, other in (p.FLAVOURS, reversed(p.FLAVOURS)):
            with self.subTest(flavour), p.folder() as folder:
                done = p.command([p.POLTER, "run", "-o", "e", "--mpi", other, *p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", "5", "100"],
                                 cwd=folder)
                self.assertIn("elapsed_ns", done.stdout)  # the program has come to its end
                self.assertEqual(done.stderr.count("the preload library is for another MPI than the program's"), 2, done.stderr)
                self.assertIn("no trace", done.stderr)
                self.assertEqual(done.returncode, 1)

    def test_programs_that_cannot_be_traced(self):
        # program, what it prints, why there is no trace: alone, and under a launcher, which may have started anything
        cases = [(["echo", "mine"], "mine", "is not linked with an MPI", "or never call MPI_Init")]
        if (p.PROGRAMS / "test-static").exists():
            cases.append(([p.PROGRAMS / "test-static"], "on its own", "is linked statically", "is linked statically"))
        cases.append(([p.PROGRAMS / "test-own-mpi"], "with its own", "defines MPI_Init itself", "defines MPI_Init itself"))
        for program, prints, alone, launched in cases:
            for launcher in ([], *(p.launcher(flavour, 2) for flavour in p.FLAVOURS)):
                with self.subTest(program=program, launcher=launcher), p.folder() as folder:
                    done = p.command([p.POLTER, "run", "-o", "e", *launcher, *program], cwd=folder)
                    self.assertEqual(done.stdout.count(prints), 2 if launcher else 1, done.stdout)
                    self.assertIn("no trace", done.stderr)
                    self.assertIn(launched if launcher else alone, done.stderr)
                    self.assertEqual(done.returncode, 1)

    def test_programs_with_rights_of_others(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make a program of another user")
        with p.folder() as folder:
            folder.chmod(0o755)
            program = folder / "setuid"
            shutil.copy("/bin/echo", program)
            os.chown(program, 65534, 65534)
            program.chmod(0o4755)
            done = p.command([p.POLTER, "run", "-o", "e", program, "mine"], cwd=folder)
            self.assertIn("mine", done.stdout)
            self.assertIn("not traced", done.stderr)
            self.assertEqual(done.stderr.count("rights of another user"), 2, done.stderr)  # before the job, and in its result
            program.chmod(0o755)
            done = p.command([p.POLTER, "run", "-o", "again", program, "mine"], cwd=folder)
            self.assertNotIn("rights of another user", done.stderr)

    def test_exec_under_a_launcher(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                words = [*p.launcher(flavour, 3), p.POLTER, "exec", "--json", "-o", "e", p.PROGRAMS / flavour / "bsp", "5", "10000"]
                done = p.command(words, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["ranks"], 3)  # one of the three printed, and it alone
                self.assertTrue((folder / "e" / "traces.otf2").exists())
                # Into a file: Hydra may lose what a rank said that ended at once.
                launcher = p.launcher(flavour, 3)
                again = p.command([*launcher, "sh", "-c", 'exec "$0" "$@" 2>>said', *words[len(launcher):]], cwd=folder)
                self.assertNotEqual(again.returncode, 0)
                self.assertIn("nothing is ever overwritten", (folder / "said").read_text())
                self.assertFalse((folder / "e" / ".processes").exists())

    def test_installed(self):
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            done = p.command([os.environ.get("CMAKE", "cmake"), "--install", p.BUILD, "--prefix", folder / "installed"])
            if done.returncode:
                self.skipTest("not everything is built: " + done.stderr.strip().splitlines()[-1])
            prefix = folder / "moved"  # no path of the installation is fixed
            (folder / "installed").rename(prefix)
            polter = prefix / "bin" / "polter"
            self.assertEqual(len(list(prefix.glob("share/doc/polter/docs/reading-the-result.md"))), 1)

            def run(name):
                job = [*p.launcher(flavour, 1), "sh", "-c", 'echo "$LD_PRELOAD" >&2; exec "$0" "$@"', p.PROGRAMS / flavour / "bsp", "5", "1000"]
                return p.command([polter, "run", "--json", "-o", folder / name, "--mpi", flavour, "--", *job])

            done = run("whole")
            self.assertEqual(done.returncode, 0, done.stderr)
            # Nothing of the build tree is used.
            self.assertIn(str(prefix), done.stderr)
            self.assertNotIn(str(p.BUILD / "lib"), done.stderr)
            built = p.Run([*p.launcher(flavour, 1), p.PROGRAMS / flavour / "bsp", "5", "1000"], folder / "built")
            self.assertEqual(json.loads(done.stdout)["run"]["exporter"]["name"], built.result["run"]["exporter"]["name"])
            self.assertEqual(p.command([polter, "replay", folder / "whole"]).returncode, 0)
            # And an installation that lacks a part says which.
            parts = next(prefix.glob("lib*/**/polter"))
            (parts / "polterd").unlink()
            exporter = json.loads(run("without-polterd").stdout)["run"]["exporter"]
            self.assertIn(exporter["name"], ("perf", "proc"))
            self.assertIn("polterd is not installed", exporter["why"])
            shutil.rmtree(parts)
            done = run("without-tracer")
            self.assertEqual(done.returncode, 1)
            self.assertIn("not installed", done.stderr)


if __name__ == "__main__":
    if not p.POLTER.exists():
        print(f"SKIP: {p.POLTER} is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
