#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`polter run` of commands that start MPI programs by themselves: scripts, loops, drivers, several jobs at once. Each MPI job, whatever its
MPI, becomes an experiment of its own; what has no MPI runs as it does without polter."""
import json
import shutil
import subprocess
import sys
import unittest

import polter_run as p

BSP = {flavour: f"{' '.join(p.launcher(flavour, 2))} {p.PROGRAMS / flavour / 'bsp'} 5 1000" for flavour in p.FLAVOURS}
FIRST = p.FLAVOURS[0] if p.FLAVOURS else ""


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(p.folder())

    def write(self, name, *lines):
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        path.chmod(0o755)
        return f"./{name}"

    def run_json(self, *words, environment=None, exporter="none"):
        done = p.command([p.POLTER, "run", "--exporter", exporter, "--json", "-o", "e", "--", *words], environment, cwd=self.folder)
        return done, json.loads(done.stdout) if done.stdout.startswith("{") else None

    def check(self, expected, *words, environment=None):
        """`expected`: program, number of ranks and the beginning of the MPI's name, of each job."""
        done, result = self.run_json(*words, environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        jobs = [result, *result.get("further", [])]
        found = [(job["provenance"]["PROGRAM"], job["ranks"], job["provenance"]["MPI"].split()[0]) for job in jobs]
        self.assertEqual(found, expected, done.stderr)
        names = ["e"] + [f"e-{n}" for n in range(2, len(expected) + 1)]
        self.assertEqual({f.name for f in self.folder.iterdir() if f.name.startswith("e")}, set(names))
        for number, (name, job) in enumerate(zip(names, jobs)):
            experiment = self.folder / name
            self.assertEqual(job["run"]["experiment"], str(self.folder / name))
            self.assertTrue(job["run"]["replayed"])
            self.assertEqual(p.replay(experiment)["ranks"], expected[number][1])
            record = json.loads((experiment / "experiment.json").read_text(encoding="utf-8"))
            self.assertEqual(record["ranks"], expected[number][1])
            self.assertEqual(record.get("mpi_job"), {"number": number + 1, "of": len(expected)} if len(expected) > 1 else None)
        return result

    def bsp(self, flavour, ranks=2):
        return ("bsp", ranks, {"openmpi": "Open", "mpich": "MPICH"}[flavour])

    def test_one_job(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour):
                script = self.write("script.sh", "#!/bin/sh", "set -e", "echo begin | sed s/b/B/ >&2", BSP[flavour], "echo end >&2")
                self.check([self.bsp(flavour)], script)
                shutil.rmtree(self.folder / "e")

    def test_each_mpi_by_itself(self):
        """In one script, one after the other."""
        script = self.write("script.sh", "#!/bin/bash", *BSP.values(), f"{BSP[FIRST].replace('-n 2', '-n 3')}")
        self.check([*map(self.bsp, p.FLAVOURS), self.bsp(FIRST, 3)], script)

    def test_loop(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour):
                self.check([self.bsp(flavour)] * 3, "sh", "-c", f"for i in 1 2 3; do {BSP[flavour]}; done")
                for left in self.folder.glob("e*"):
                    shutil.rmtree(left)

    def test_at_the_same_time(self):
        """Two jobs of one size, each with its own ranks: they are not mixed."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour):
                self.check([self.bsp(flavour)] * 2, "sh", "-c", f"{BSP[flavour]} & {BSP[flavour]}; wait")
                for experiment in self.folder.glob("e*"):
                    self.assertFalse(any("rank" in w and "left nothing" in w for w in p.replay(experiment)["warnings"]))
                    shutil.rmtree(experiment)

    def test_driver_and_nested_scripts(self):
        inner = self.write("inner.sh", "#!/bin/sh", "exec " + BSP[p.FLAVOURS[-1]])
        driver = self.write("driver.py", "import subprocess", f"subprocess.run({BSP[FIRST].split()!r}, check=True)",
                            f"subprocess.run(['sh', '-c', '{inner}'], check=True)")
        self.check([self.bsp(FIRST), self.bsp(p.FLAVOURS[-1])], sys.executable, driver)

    def test_without_a_launcher(self):
        """Programs of one process each, of each MPI, started by a shell."""
        programs = [f"{p.PROGRAMS / flavour / 'bsp'} 5 1000" for flavour in p.FLAVOURS]
        self.check([self.bsp(flavour, 1) for flavour in p.FLAVOURS * 2], "sh", "-c", "; ".join(programs * 2))

    def test_mpi_that_is_loaded_late(self):
        """By a plug-in, as mpi4py is."""
        for flavour in p.FLAVOURS:
            library = p.PROGRAMS / flavour / "libhostile.so"
            if not library.exists() or not (p.PROGRAMS / "test-plugin").exists():
                self.skipTest("no program that loads MPI late")
            with self.subTest(flavour):
                done, result = self.run_json("sh", "-c", f"{' '.join(p.launcher(flavour, 2))} {p.PROGRAMS}/test-plugin {library}")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(result["ranks"], 2)
                shutil.rmtree(self.folder / "e")

    def test_what_other_tools_see(self):
        """A tool that is preloaded behind the tracer still sees each call."""
        for flavour in p.FLAVOURS:
            count = p.PROGRAMS / flavour / "libcount.so"
            if not count.exists():
                self.skipTest("no tool that counts calls")
            said = []
            for polter in ([], [p.POLTER, "run", "--exporter", "none", "-q", "-o", "e"]):
                counts = self.folder / f"{flavour}-{len(said)}"
                counts.mkdir()
                words = [*polter, "sh", "-c", f"LD_PRELOAD=$LD_PRELOAD:{count} {' '.join(p.launcher(flavour, 2))} {p.PROGRAMS / flavour / 'p2p'}"]
                done = p.command(words, {"COUNT_OUTPUT": str(counts)}, cwd=self.folder)
                said.append({f.name: f.read_text(encoding="utf-8") for f in counts.iterdir()})
            with self.subTest(flavour):
                self.assertEqual(len(said[0]), 2)
                self.assertEqual(said[0], said[1], done.stderr)
            shutil.rmtree(self.folder / "e", ignore_errors=True)

    def test_no_mpi(self):
        for words in (["sh", "-c", "exit 0"], ["bash", "-c", "true | true; exit 3"], [sys.executable, "-c", "print('hello')"], ["make", "--version"]):
            with self.subTest(words):
                if not shutil.which(words[0]):
                    continue
                done = p.command([p.POLTER, "run", "--exporter", "none", *words], cwd=self.folder)
                self.assertEqual(done.returncode, 3 if "exit 3" in words[-1] else 1)
                self.assertIn("no trace", done.stderr)
                self.assertIn("MPI_Init", done.stderr)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_programs_without_mpi_are_not_touched(self):
        """What they say, their exit codes and their libraries, but for the one that waits for MPI."""
        script = "set -o pipefail; printf 'b\\na\\n' | sort | sed s/a/A/; false | cat; echo $?; ls -d / ; exit 4"
        plain = p.command(["bash", "-c", script])
        traced = p.command([p.POLTER, "run", "--exporter", "none", "-q", "bash", "-c", script], cwd=self.folder)
        self.assertEqual((traced.returncode, traced.stdout), (plain.returncode, plain.stdout))
        loaded = p.command([p.POLTER, "run", "--exporter", "none", "-q", "sh", "-c", "cat /proc/self/maps"], cwd=self.folder).stdout
        ours = {line.split()[-1] for line in loaded.splitlines() if "polter" in line}
        self.assertEqual({name.rsplit("/", 1)[1] for name in ours}, {"libpolter-mpi.so"})

    def test_text(self):
        done = p.command([p.POLTER, "run", "--exporter", "none", "-o", "e", "sh", "-c", f"{BSP[FIRST]}; {BSP[FIRST]}"], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("MPI job 1 of 2", "More: polter replay e\n", "MPI job 2 of 2", "More: polter replay e-2\n"):
            self.assertIn(part, done.stdout)

    def test_name_that_is_taken(self):
        (self.folder / "e-2").mkdir()
        done, result = self.run_json("sh", "-c", f"{BSP[FIRST]}; {BSP[FIRST]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(result["further"][0]["run"]["experiment"], str(self.folder / "e-3"))
        self.assertEqual(list((self.folder / "e-2").iterdir()), [])

    def test_folder_of_the_job(self):
        """One that the program makes in the experiment stays as it is, whatever its name."""
        done, _ = self.run_json("sh", "-c", f"mkdir e/job-2; echo dear >e/job-2/thesis.tex; {BSP[FIRST]}")
        self.assertEqual((done.returncode, (self.folder / "e/job-2/thesis.tex").read_text(encoding="utf-8")), (0, "dear\n"), done.stderr)

    def test_polter_was_killed(self):
        """What is left is put together by replay, each job's in a folder of its own."""
        done = p.command([p.POLTER, "run", "--exporter", "none", "-q", "-o", "e", "sh", "-c", f"{BSP[FIRST]}; {BSP[FIRST]}; kill -KILL $PPID"],
                         cwd=self.folder)
        self.assertEqual(done.returncode, -9)
        done = p.command([p.POLTER, "replay", "--json", "e"], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("e/job-2", done.stderr)
        self.assertEqual(p.replay(self.folder / "e" / "job-2")["ranks"], 2)


class Bounded(unittest.TestCase):
    """The replay at the end of a run takes at most so long."""

    def run_with(self, folder, limit, *options):
        return p.command([p.POLTER, "run", *options, "-o", "e", *p.launcher(FIRST, 2), p.PROGRAMS / FIRST / "bsp", "50", "10000"],
                         {"POLTER_REPLAY_LIMIT": limit}, cwd=folder)

    def test_text(self):
        with p.folder() as folder:
            done = self.run_with(folder, "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            for part in ("bsp: 2 ranks on ", "Run time", "OS noise delay: not known", "polter run waits at most 0 s", "More: polter replay e\n"):
                self.assertIn(part, " ".join(done.stdout.split()) + "\n" if "\n" not in part else done.stdout)
            self.assertNotIn("Without noise", done.stdout)
            screen = done.stdout[done.stdout.index("bsp: 2 ranks on "):]
            self.assertLessEqual(max(map(len, screen.splitlines())), 80, screen)
            # All is there for the command that is named.
            self.assertEqual(p.replay(folder / "e")["ranks"], 2)

    def test_json(self):
        with p.folder() as folder:
            done = self.run_with(folder, "0", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertFalse(result["run"]["replayed"])
            self.assertIn("replaying ", result["run"]["not_replayed"])
            self.assertNotIn("accumulated_noise_ns", result)
            # What the ranks know by themselves is what a replay finds to be local noise.
            replayed = p.replay(folder / "e")
            self.assertEqual(result["ranks"], replayed["ranks"])
            if result["run"]["measured_by"] == "none":
                self.skipTest("nothing measures noise here")
            for kind, key in (("sources", "local_noise_ns"), ("services", "local_ns")):
                for name, known in result[kind].items():
                    there = replayed[kind].get(name, {key: {"max": 0}})
                    self.assertAlmostEqual(known[key]["max"], there[key]["max"], delta=2000 + there[key]["max"] / 100, msg=name)

    def test_without_noise(self):
        with p.folder() as folder:
            done = self.run_with(folder, "0", "--exporter", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Noise: not measured", done.stdout)

    def test_long_enough(self):
        with p.folder() as folder:
            done = self.run_with(folder, "200", "--json")
            self.assertTrue(json.loads(done.stdout)["run"]["replayed"])


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if not (p.BUILD / "lib" / "polter" / "libpolter-mpi.so").exists():
        print("SKIP: no libpolter-mpi.so on this architecture")
        sys.exit(77)
    unittest.main(verbosity=2)
